package server

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify sends a message to the service manager, if one started the process: systemd, by sd_notify(3). A
// failure does not stop the service.
func (s *Server) notify(message string) {
	if _, err := daemon.SdNotify(false, message); err != nil {
		s.Log.Warn("service manager notification failed", "message", message, "error", err)
	}
}

// NotifyReload calls f, which re-reads a part of the configuration, between the two messages of a reload. Reloads run one
// after the other.
func (s *Server) NotifyReload(f func()) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	f()
	s.notify(daemon.SdNotifyReady)
}

// watchdog sends two messages per watchdog interval until ctx is done. Alive is called before each: if it
// does not return, the service manager restarts the process.
func (s *Server) watchdog(ctx context.Context) error {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.Log.Warn("WATCHDOG_USEC is no time in microseconds: the service manager gets no signs of life", "error", err)
	}
	if interval <= 0 {
		return nil
	}
	every := time.NewTicker(interval / 2)
	defer every.Stop()
	for {
		s.Alive()
		s.notify(daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}
