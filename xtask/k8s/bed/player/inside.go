package main

import (
	"fmt"
	"os"
)

// What the player calls itself where it makes a container's surroundings.
const insideName = "inside"

func inside() {
	fmt.Fprintln(os.Stderr, "player: not built for that")
	os.Exit(2)
}
