package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

const (
	// The streams of a command come within this time.
	streamsWithin = 30 * time.Second
	// A log is looked at so often for more.
	logAgain = 200 * time.Millisecond
)

// serve answers as the kubelets of all nodes: commands in containers, and their logs. Only the API
// server is answered, which shows the certificate that was made for it: what is asked for here runs
// as root.
func (r *real) serve(ctx context.Context, keys string, port int) error {
	own, err := tls.LoadX509KeyPair(filepath.Join(keys, kubeletCert), filepath.Join(keys, kubeletKey))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", r.exec)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", r.logs)
	server := &http.Server{
		Addr: fmt.Sprintf("127.0.0.1:%d", port), Handler: mux,
		// Streams of commands take the connection over, which HTTP/2 has no way for.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert,
			VerifyPeerCertificate: func(shown [][]byte, _ [][]*x509.Certificate) error {
				if len(shown) == 0 || !slices.Equal(shown[0], own.Certificate[0]) {
					return errors.New("not the API server")
				}
				return nil
			},
		},
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		err := server.ListenAndServeTLS("", "")
		if !errors.Is(err, http.ErrServerClosed) {
			fmt.Println("kubelets:", err)
		}
	}()
	return nil
}

func (r *real) exec(w http.ResponseWriter, request *http.Request) {
	run := r.find(request.PathValue("namespace"), request.PathValue("pod"))
	if run == nil {
		http.Error(w, "no such pod", http.StatusNotFound)
		return
	}
	container := request.PathValue("container")
	query := request.URL.Query()
	kinds := []string{v1.StreamTypeError}
	for kind, key := range map[string]string{
		v1.StreamTypeStdin: "input", v1.StreamTypeStdout: "output", v1.StreamTypeStderr: "error",
	} {
		if value := query.Get(key); value == "1" || value == "true" {
			kinds = append(kinds, kind)
		}
	}
	streams, conn, err := upgrade(w, request, kinds)
	if err != nil {
		fmt.Println("exec:", err)
		return
	}
	defer func() { _ = conn.Close() }()
	status := outcome(run.within(container, query["command"], streams))
	text, _ := json.Marshal(status)
	_, _ = streams[v1.StreamTypeError].Write(text)
	_ = streams[v1.StreamTypeError].Close()
}

// upgrade makes the connection one of streams, and waits for those of these kinds.
func upgrade(w http.ResponseWriter, request *http.Request, kinds []string) (
	map[string]httpstream.Stream, httpstream.Connection, error,
) {
	_, err := httpstream.Handshake(request, w, []string{remotecommand.StreamProtocolV4Name})
	if err != nil {
		return nil, nil, err
	}
	coming := make(chan httpstream.Stream, len(kinds))
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, request,
		func(stream httpstream.Stream, _ <-chan struct{}) error {
			coming <- stream
			return nil
		})
	if conn == nil {
		return nil, nil, errors.New("the connection cannot be upgraded")
	}
	streams, late := map[string]httpstream.Stream{}, time.After(streamsWithin)
	for len(streams) < len(kinds) {
		select {
		case stream := <-coming:
			streams[stream.Headers().Get(v1.StreamType)] = stream
		case <-late:
			_ = conn.Close()
			return nil, nil, errors.New("its streams do not come")
		}
	}
	return streams, conn, nil
}

// within runs a command in the namespaces of a container, as the container's user.
func (r *podRun) within(container string, command []string, streams map[string]httpstream.Stream) error {
	r.state.Lock()
	pid := r.processes[container]
	r.state.Unlock()
	if pid == 0 {
		return fmt.Errorf("container not found (%q)", container)
	}
	words := []string{"--target", strconv.Itoa(pid), "--mount", "--uts", "--pid", "--root", "--wd"}
	if all := r.pod.Spec.SecurityContext; all != nil && all.RunAsUser != nil {
		words = append(words, "--setuid", strconv.FormatInt(*all.RunAsUser, 10))
		if all.RunAsGroup != nil {
			words = append(words, "--setgid", strconv.FormatInt(*all.RunAsGroup, 10))
		}
	}
	cmd := exec.Command("nsenter", append(append(words, "--"), command...)...)
	if in, ok := streams[v1.StreamTypeStdin]; ok {
		cmd.Stdin = in
	}
	if out, ok := streams[v1.StreamTypeStdout]; ok {
		cmd.Stdout = out
	}
	if err, ok := streams[v1.StreamTypeStderr]; ok {
		cmd.Stderr = err
	}
	return cmd.Run()
}

// outcome says how a command ended, as the fourth protocol of remote commands has it.
func outcome(err error) metav1.Status {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &ended):
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", ended),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(ended.ExitCode()),
			}}},
		}
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: err.Error(), Code: http.StatusInternalServerError,
	}
}

// logs gives what a container wrote, and where asked what it writes until it ends.
func (r *real) logs(w http.ResponseWriter, request *http.Request) {
	run := r.find(request.PathValue("namespace"), request.PathValue("pod"))
	if run == nil {
		http.Error(w, "no such pod", http.StatusNotFound)
		return
	}
	file, err := os.Open(run.log(request.PathValue("container")))
	if err != nil {
		http.Error(w, "no log", http.StatusNotFound)
		return
	}
	defer func() { _ = file.Close() }()
	follow := request.URL.Query().Get("follow") == "true"
	for {
		over := run.over()
		if _, err := io.Copy(w, file); err != nil || over || !follow {
			return
		}
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		select {
		case <-request.Context().Done():
			return
		case <-run.done:
		case <-time.After(logAgain):
		}
	}
}
