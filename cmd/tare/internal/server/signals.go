package server

import (
	"os"
	"os/signal"
	"sync"
)

// onSignal calls f for each signal, one call at a time, until stop is called, which waits for a running call.
func onSignal(s os.Signal, f func()) (stop func()) {
	signals := make(chan os.Signal, 1) // signals during a call are merged
	signal.Notify(signals, s)
	stopped := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-stopped:
				return
			case <-signals:
				f()
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(stopped)
		wait.Wait()
	}
}
