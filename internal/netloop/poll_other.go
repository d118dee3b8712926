//go:build !linux || !(amd64 || arm64)

package netloop

import (
	"errors"
	"net"
	"syscall"
)

const supported = false

var errNoLoops = errors.New("this platform has no event loops")

// On this platform every task is an ordinary goroutine: New creates no loops, so that the functions below are
// never called.

type poller struct{}

const wakeID = 0

func (*poller) open() error                   { return errNoLoops }
func (*poller) close()                        { noLoops() }
func (*poller) add(int32, uint64) error       { return errNoLoops }
func (*poller) remove(int32)                  { noLoops() }
func (*poller) wake()                         { noLoops() }
func (*poller) wait(bool, int) int            { noLoops(); return 0 }
func (*poller) event(int) (uint64, readiness) { noLoops(); return 0, 0 }

func receive(int32, []byte) (int, syscall.Errno) { noLoops(); return 0, 0 }
func send(int32, []byte) (int, syscall.Errno)    { noLoops(); return 0, 0 }
func takeDescriptor(net.Conn) (int32, error)     { return -1, errNoLoops }
func returnDescriptor(int32) (net.Conn, error)   { return nil, errNoLoops }
func closeDescriptor(int32) error                { return errNoLoops }
func silent(int32, []byte) bool                  { noLoops(); return false }
func shutdownWrite(int32) error                  { return errNoLoops }

func noLoops() { panic("BUG: a loop on a platform that has none") }
