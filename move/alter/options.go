package alter

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// Default values of Options.
const (
	DefaultMaxLockWait = time.Second
	DefaultLockTries   = 30
	DefaultMaxInplace  = 128 << 20
)

// Options state what is altered, where, and how.
type Options struct {
	On            mysqlconn.Config
	Schema, Table string
	Clauses       string

	AlwaysCopy bool // do not try INSTANT and INPLACE
	NeverCopy  bool // fail where only a copy is left

	// MaxLockWait bounds each wait for the table's metadata lock, and so how long clients wait behind it: whole seconds.
	// 0: DefaultMaxLockWait.
	MaxLockWait time.Duration
	LockTries   int   // of waits that took longer; 0: DefaultLockTries
	MaxInplace  int64 // bytes of a table that may be rebuilt, or get an index, in place; negative: none

	copier.Tuning // of a copy; see copier.Options
	Throttle      throttle.Options
	Control       string   // path of a unix socket; empty: none
	Monitor       *Monitor // observes the run; nil: nothing does

	// Gateway is the tare serve through which clients are paused for the moment of a swap. No URL: they wait for the table's lock.
	Gateway gatewayclient.Gateway

	Restart  bool // discard an unfinished copy of the table first
	Postpone bool // swap the tables only when the control socket is told to

	// KeepOld is how long the old table of a copy is kept for Revert, which follows the changes since the swap into it. 0: it is dropped
	// at once.
	KeepOld time.Duration

	// RevertWindow is how long Run follows changes back into the old table after the swap, so that a revert is ready at once: at most
	// KeepOld. 0: Run returns after the swap.
	RevertWindow time.Duration

	// OnEvent is a shell command that is executed with a hookEvent on its standard input, for at most hookTimeout each. The alteration
	// does not wait for it, but Run does before it returns. Empty: none.
	OnEvent string

	socket *control.Socket // open for Control; nil: not yet
	hooks  *hooks          // of OnEvent; nil: not yet

	LossyRevert bool // Revert even if values are lost

	Swapped func(*Report) // called when the tables are swapped, before changes are followed back; nil: not called

	Observe func(telemetry.Event) // called by several goroutines; nil: no one
}

// validate sets defaults and returns an error if o is invalid.
func (o *Options) validate() error {
	o.MaxLockWait = cmp.Or(o.MaxLockWait, DefaultMaxLockWait)
	o.LockTries = cmp.Or(o.LockTries, DefaultLockTries)
	o.MaxInplace = cmp.Or(o.MaxInplace, DefaultMaxInplace)
	o.Patience = cmp.Or(o.Patience, copier.DefaultPatience)
	if o.Monitor == nil {
		o.Monitor = &Monitor{}
	}
	if o.Observe == nil {
		o.Observe = func(telemetry.Event) {}
	}
	if o.Swapped == nil {
		o.Swapped = func(*Report) {}
	}
	switch {
	case o.KeepOld < 0:
		return fmt.Errorf("an old table that is kept for %v: use 0 or more", o.KeepOld)
	case o.RevertWindow < 0:
		return fmt.Errorf("a revert window of %v: use 0 or more", o.RevertWindow)
	case o.RevertWindow > o.KeepOld:
		return fmt.Errorf("a revert window of %v: the old table is kept for %v; raise option keep-old", o.RevertWindow, o.KeepOld)
	case o.Schema == "" || o.Table == "":
		return errors.New("no table to alter")
	case o.AlwaysCopy && o.NeverCopy:
		return errors.New("option always-copy and option never-copy exclude each other")
	case o.MaxLockWait < time.Second || o.MaxLockWait%time.Second != 0:
		return fmt.Errorf("a lock wait of %v: servers count whole seconds, at least 1", o.MaxLockWait)
	case o.LockTries < 0:
		return fmt.Errorf("%d tries of a lock: use 1 or more", o.LockTries)
	}
	if err := o.Gateway.Validate(); err != nil {
		return err
	}
	o.On.Patience = cmp.Or(o.On.Patience, o.Patience)
	return o.On.Validate()
}

// copyOf returns the options of a copy within the server, which ends with a swap.
func (o *Options) copyOf(spec tabledef.Spec, swap copier.Swap) copier.Options {
	return copier.Options{
		From: copier.FromServer(o.On), To: o.On, Tables: []tabledef.Spec{spec}, StateSchema: Schema,
		Tuning: o.Tuning, Follow: true, Swap: swap, Metrics: &o.Monitor.Copy, Observe: o.Observe,
	}
}
