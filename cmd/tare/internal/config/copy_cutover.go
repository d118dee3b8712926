package config

import (
	"errors"
	"time"

	"github.com/taredb/tare/internal/move/cutover"
)

// CopyCutover are the options for switching clients once the target has caught up.
type CopyCutover struct {
	On      bool
	Options cutover.Options `json:"-"` // without the gateway and the source as a server to write to
}

func (o *CopyCutover) declare(s *Set) {
	s.in("Cutover")
	s.Bool(&o.On, "cutover", "once the target has caught up, switch the clients of --gateway to it; without --gateway, print the steps; with --to-shard, make the source read-only")
	s.Duration(&o.Options.Lag, "cutover-lag", cutover.DefaultLag.String(), "maximum lag of the target when clients are paused")
	s.Duration(&o.Options.MaxPause, "cutover-hold", cutover.DefaultMaxPause.String(), "maximum pause of the clients, with --to-shard of their writes; then the cutover is retried")
	s.Int(&o.Options.Tries, "cutover-tries", "10", 1, "attempts before the copy fails")
	s.Duration(&o.Options.ClosePinned, "cutover-close-pinned", "0", "close sessions that cannot be switched after this long; 0: do not switch")
	s.Duration(&o.Options.Window, "reverse-window", "1h", "how long changes of the target are written back to the source; 0: not at all")
}

// need declares which options have no effect without others.
func (o *CopyCutover) need(s *Set, c *Copy) {
	s.need("without --cutover", func() bool { return o.On }, "cutover-lag", "cutover-hold", "cutover-tries", "cutover-close-pinned", "reverse-window")
	s.need("with --to-shard: the gateway switches clients to one backend",
		func() bool { return len(c.Shards) == 0 }, "cutover-close-pinned")
	s.need("with --to-shard: changes of the targets are not written back to the source", func() bool { return len(c.Shards) == 0 }, "reverse-window")
	s.need("without --gateway: the steps are printed", func() bool { return c.Throttle.Gateway.set() || len(c.Shards) > 0 },
		"cutover-lag", "cutover-hold", "cutover-tries", "cutover-close-pinned", "reverse-window")
}

func (o *CopyCutover) validate(c *Copy) (errs []error) {
	const longest = 30 * time.Second // of a gateway's pause
	if o.On && !c.Copy.Follow {
		errs = append(errs, errors.New("--cutover needs --follow"))
	}
	if o.On && c.FollowUntil == FollowUntilCaughtUp {
		errs = append(errs, errors.New("--cutover continues after the target has caught up: omit --follow-until caught-up"))
	}
	if o.On && c.From.Tare != "" && c.Throttle.Gateway.set() {
		errs = append(errs, errors.New("--cutover with --gateway needs --from mysql://: it must be sure that the gateway's server is the one that is read, and writes to it afterwards; "+
			"leave --cutover out, and switch by hand once the target has caught up: hold at the gateway, tare copy ctl finish, switch (docs/tasks/switch-clients.md)"))
	}
	if o.On && (o.Options.MaxPause <= 0 || o.Options.MaxPause > longest) {
		errs = append(errs, errors.New("--cutover-hold: use more than 0 and at most 30s"))
	}
	return errs
}
