package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

func main() {
	syscall.Umask(0o077) // until a command's own; files have rows and statement texts
	args := takeArgs()
	ctx, stop := untilInterrupted(context.Background())
	code := run(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// untilInterrupted returns a context that SIGINT or SIGTERM cancels with errInterrupted. A second signal
// exits the process immediately.
func untilInterrupted(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	stopped := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stopped:
				return
			case s := <-signals:
				if n > 0 {
					fmt.Fprintf(os.Stderr, "tare: %v again: ending at once\n", s)
					os.Exit(exitInterrupted)
				}
				cancel(errInterrupted)
			}
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		wait.Wait()
		cancel(nil)
	}
}
