// Empties dist but for the file that git knows: the folder has to be there in every checkout.
import { readdirSync, rmSync } from 'node:fs';

const dist = new URL('../dist/', import.meta.url);
for (const name of readdirSync(dist)) {
  if (name !== '.gitignore') rmSync(new URL(name, dist), { recursive: true });
}
