package cutover

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// Options configure the switch of a gateway's clients from the source to the target.
type Options struct {
	// Gateway is the tare serve whose clients are switched. Without one, the steps of a manual switch
	// are reported once the target has caught up.
	Gateway gatewayclient.Gateway

	// Back configures the connection that writes the target's changes back to the source.
	Back mysqlconn.Config

	Lag      time.Duration // maximum lag of the target when clients are paused
	MaxPause time.Duration // maximum pause of clients; 0: DefaultMaxPause
	Tries    int           // 0: DefaultTries
	Window   time.Duration // how long the target's changes are written back to the source; 0: not at all

	// ClosePinned is how long to wait for sessions that cannot be switched, after the target has caught
	// up and before clients are paused. The gateway then closes them. 0: they are never closed, and
	// prevent the switch of all clients.
	ClosePinned time.Duration
}

// Default values of Options.
const (
	DefaultLag      = time.Second
	DefaultMaxPause = time.Second
	DefaultTries    = 10
)

// Validate sets defaults and returns an error if o is invalid.
func (o *Options) Validate() error {
	o.MaxPause = cmp.Or(o.MaxPause, DefaultMaxPause)
	o.Tries = cmp.Or(o.Tries, DefaultTries)
	const longest = 30 * time.Second // pause that a gateway accepts
	switch {
	case o.Gateway.URL == "":
		return nil
	case o.Lag < 0 || o.Window < 0 || o.Tries < 0 || o.ClosePinned < 0:
		return errors.New("a cutover's times and tries are 0 or more")
	case o.MaxPause < 0 || o.MaxPause > longest:
		return fmt.Errorf("a cutover that holds clients for %v: use more than 0 and at most %v", o.MaxPause, longest)
	}
	if err := o.Gateway.Validate(); err != nil {
		return err
	}
	return o.Back.Validate()
}
