package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A supervisor is the service manager that has started this process and wants to be told how it
// goes: systemd, by sd_notify(3). A nil one is told nothing.
type supervisor struct {
	conn     *net.UnixConn
	watchdog time.Duration // a sign of life is due in each; 0 when none is wanted
	log      *slog.Logger
}

// newSupervisor is the one that the environment names, nil without one.
func newSupervisor(getenv func(string) string, pid int, log *slog.Logger) *supervisor {
	name := getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	// A name that begins with @ is one in the abstract name space, to net as to systemd.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		log.Warn("service manager notification unavailable", "error", err)
		return nil
	}
	s := &supervisor{conn: conn, log: log}
	if owner := getenv("WATCHDOG_PID"); owner != "" && owner != strconv.Itoa(pid) {
		return s // the watchdog is another process's
	}
	if text := getenv("WATCHDOG_USEC"); text != "" {
		us, err := strconv.ParseInt(text, 10, 64)
		if err != nil || us <= 0 || us > int64(24*time.Hour/time.Microsecond) {
			log.Warn("WATCHDOG_USEC is no time in microseconds: the service manager gets no signs of life", "value", text)
			return s
		}
		s.watchdog = time.Duration(us) * time.Microsecond
	}
	return s
}

// tell sends one message. That it is not heard does not end the service.
func (s *supervisor) tell(message string) {
	if s == nil {
		return
	}
	if _, err := s.conn.Write([]byte(message)); err != nil {
		s.log.Warn("service manager notification failed", "message", message, "error", err)
	}
}

// ready says that the service does its work; what is the line that `systemctl status` shows.
func (s *supervisor) ready(what string) { s.tell("READY=1\nSTATUS=" + what) }

// reload runs f, which reads a part of the configuration again.
func (s *supervisor) reload(f func()) {
	if s == nil {
		f()
		return
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // there is always this clock
	s.tell(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond)))
	f()
	s.tell("READY=1")
}

// stopping says that the service ends in order.
func (s *supervisor) stopping() { s.tell("STOPPING=1\nSTATUS=draining") }

// watch gives a sign of life twice in each of the watchdog's times until ctx is done. alive is called
// before each: when it does not return, there are no more signs, and the process is started anew.
func (s *supervisor) watch(ctx context.Context, alive func()) error {
	if s == nil || s.watchdog == 0 {
		return nil
	}
	every := time.NewTicker(s.watchdog / 2)
	defer every.Stop()
	for {
		alive()
		s.tell("WATCHDOG=1")
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// close ends the talk.
func (s *supervisor) close() error {
	if s == nil {
		return nil
	}
	return s.conn.Close()
}
