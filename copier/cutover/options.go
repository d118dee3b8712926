package cutover

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/gatewayclient"
	"github.com/taredb/tare/mysqlconn"
)

// Options say how a gateway's clients are brought from the source to the target.
type Options struct {
	// Gateway is the tare serve that switches its clients. Without one, the steps to do by hand are
	// reported once the target has caught up.
	Gateway gatewayclient.Gateway

	// Back is the source as a server that is written to, for what goes back there.
	Back mysqlconn.Config

	Lag    time.Duration // how far the target may be behind when clients are held
	Hold   time.Duration // how long clients wait at most; 0: DefaultHold
	Tries  int           // 0: DefaultTries
	Window time.Duration // how long the target's changes go back to the source; 0: not at all

	// ClosePinned is how long sessions that cannot be switched are waited for, once the target has caught
	// up and before clients are held; then the gateway closes them. 0: they are never closed, and keep
	// all clients from being switched.
	ClosePinned time.Duration
}

// The defaults of a cutover.
const (
	DefaultLag   = time.Second
	DefaultHold  = time.Second
	DefaultTries = 10
)

// Validate fills in defaults and says what is wrong with o, if anything.
func (o *Options) Validate() error {
	o.Hold = cmp.Or(o.Hold, DefaultHold)
	o.Tries = cmp.Or(o.Tries, DefaultTries)
	const longest = 30 * time.Second // that a gateway holds
	switch {
	case o.Gateway.URL == "":
		return nil
	case o.Lag < 0 || o.Window < 0 || o.Tries < 0 || o.ClosePinned < 0:
		return errors.New("a cutover's times and tries are 0 or more")
	case o.Hold < 0 || o.Hold > longest:
		return fmt.Errorf("a cutover that holds clients for %v: use more than 0 and at most %v", o.Hold, longest)
	}
	if err := o.Gateway.Validate(); err != nil {
		return err
	}
	return o.Back.Validate()
}
