// A large queue and a large cluster, made up: the same in each run.

const USERS = ['mara', 'oleg', 'jisoo', 'ada', 'linus'];

/** One page of `count` jobs, as GET /v1/queue answers. */
export function manyJobs(url, count) {
  const limit = Number(url.searchParams.get('limit') ?? 1000);
  const after = Number(url.searchParams.get('after') ?? 0);
  const rows = [];
  for (let id = after + 1; id <= Math.min(count, after + limit); id += 1) rows.push(job(id));
  const last = after + limit;
  return { rows, next: last < count ? last : null, now_ms: Date.now() };
}

function job(id) {
  const runs = id % 50 === 0;
  const now = Date.now();
  const gpus = [0, 1, 1, 2, 4, 8][id % 6];
  return {
    id, job: String(id), name: `job${id}`, user: USERS[id % USERS.length], uid: 1000 + (id % USERS.length), account: 'physics', partition: 'main', qos: 'normal',
    state: runs ? 'running' : 'pending', submitted_ms: now - id * 1000, started_ms: runs ? now - 60_000 : null, ended_ms: runs ? now + 3_600_000 : null,
    time_limit_s: 3600, nodes: 1, node_list: runs ? `node${id % 1000}` : '', tasks: 1, cpus: 8, memory_mib: 4096, gpus, tres: '', priority: 1000,
    ...(runs ? {} : { reason: { code: 'PRIORITY', word: 'Priority', text: `${id} waiting jobs before it` } }),
  };
}

/** One page of `count` nodes, as GET /v1/nodes answers. */
export function manyNodes(url, count) {
  const limit = Number(url.searchParams.get('limit') ?? 1000);
  const from = url.searchParams.has('after') ? Number(url.searchParams.get('after')) + 1 : 0;
  const nodes = [];
  for (let id = from; id < Math.min(count, from + limit); id += 1) nodes.push(node(id));
  const last = from + limit - 1;
  return { nodes, next: last < count - 1 ? last : null, now_ms: Date.now() };
}

function node(id) {
  const used = id % 9;
  const devices = Array.from({ length: 8 }, (_, index) => ({
    index, model: 'h100', memory_mib: 81_920, jobs: index < used ? [id + 1] : [], share_used: index < used ? 1000 : 0, numa: index >> 2,
    ...(id % 97 === 0 && index === 3 ? { unhealthy: 'Xid 79' } : {}),
  }));
  return {
    id, name: `node${id}`, engine: 'local', state: id % 211 === 0 ? 'down' : used === 0 ? 'idle' : 'mixed', drain: id % 151 === 0, partitions: ['main'], cpus: 64,
    cpus_used: used * 8, sockets: 2, cores_per_socket: 32, threads_per_core: 1, memory_mib: 524_288, memory_used_mib: used * 65_536, devices, gpus_used: used, weight: 0,
  };
}
