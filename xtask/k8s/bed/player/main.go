// What stands in for the machines of the bed: it makes the nodes and does what their kubelets
// would do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const usage = `usage: player keys --dir DIR
       player nodes [--kubeconfig FILE] [--count N] [--gpus G] [--port P]
       player play [--kubeconfig FILE] [--mode fast|real] [--dir DIR] [--port P]
       player status [--kubeconfig FILE]
`

// The command line, in one: every command takes from it what it needs.
type options struct {
	kubeconfig string
	dir        string
	mode       string
	count      int
	gpus       int
	port       int
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == insideName {
		inside()
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "player:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 2 {
		return errors.New(usage)
	}
	var o options
	flags := flag.NewFlagSet("player", flag.ExitOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "kubeconfig", "who the player is")
	flags.StringVar(&o.dir, "dir", ".", "where keys, or the pods' folders, lie")
	flags.StringVar(&o.mode, "mode", modeFast, "fast, or real")
	flags.IntVar(&o.count, "count", 4, "how many nodes")
	flags.IntVar(&o.gpus, "gpus", 8, "how many GPUs each")
	flags.IntVar(&o.port, "port", 10250, "where the kubelets of all nodes answer")
	klog.InitFlags(flags)
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if os.Args[1] == "keys" {
		return writeKeys(o.dir)
	}
	client, err := connect(o.kubeconfig)
	// The API server makes its certificate when it starts.
	for end := time.Now().Add(readyWithin); os.Args[1] == "nodes" && isNotThere(err); {
		if time.Now().After(end) {
			break
		}
		time.Sleep(100 * time.Millisecond)
		client, err = connect(o.kubeconfig)
	}
	if err != nil {
		return err
	}
	switch os.Args[1] {
	case "nodes":
		return makeNodes(ctx, client, o)
	case "play":
		return play(ctx, client, o)
	case "status":
		return status(ctx, client)
	}
	return errors.New(usage)
}

// A client without limits of its own. JSON would cost both ends a good part of their time.
func connect(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(config)
}

// isNotThere says whether a file that the kubeconfig names is absent; the error has only its text.
func isNotThere(err error) bool {
	return err != nil && strings.Contains(err.Error(), syscall.ENOENT.Error())
}
