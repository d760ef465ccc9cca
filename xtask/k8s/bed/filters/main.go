// Kubernetes' own filters as a service of lines: each line of the input is a cluster and a pod,
// each line of the output the pod as the API server keeps it, and the nodes on which kube-scheduler's
// default profile would let it run. The types question and answer say what the lines hold.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

func main() {
	flags := flag.NewFlagSet("filters", flag.ExitOnError)
	klog.InitFlags(flags)
	// What the plugins say of odd objects is of use to nobody here.
	_ = flags.Set("logtostderr", "true")
	_ = flags.Set("stderrthreshold", "FATAL")
	_ = flags.Parse(os.Args[1:])
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "filters:", err)
		os.Exit(1)
	}
}

// serve answers every line until the input ends. Every answer is written before the next question
// is read, so that a caller may wait for it.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	profile, err := newProfile(ctx)
	if err != nil {
		return err
	}
	lines, writer := bufio.NewReaderSize(in, 1<<20), bufio.NewWriter(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := json.NewEncoder(writer).Encode(answerLine(ctx, profile, line)); err != nil {
				return err
			}
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func answerLine(ctx context.Context, profile *profile, line []byte) *answer {
	var question question
	if err := json.Unmarshal(line, &question); err != nil {
		return &answer{Error: "the line cannot be read: " + err.Error()}
	}
	return profile.answer(ctx, &question)
}
