package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/tabledef"
)

// maxSplit is the maximum number of targets: each uses several connections to the source, and reads its log.
const maxSplit = 64

// declareSplit declares the options of a copy to several targets.
func (c *Copy) declareSplit(s *Set) {
	declare(s, &c.Shards, Option{
		Name: "to-shard", Kind: "url", repeats: true,
		Help: "account on one of several targets, instead of --to; repeated in order of the shards",
	}, parseControlURLs, formatControlURLs)
	s.Lines(&c.splits, "shard-by", "clause", "rows of a table for each target of --to-shard: 'db.t1: hash(column)', 'db.t1: range(column, 1000, 2000)', 'db.t1: lookup(column, db.shards)' or 'db.t1: all'; with --from-shard those of each source, by hash or range; required once per table")
}

// validateSplit computes the tables of each target.
func (c *Copy) validateSplit() (errs []error) {
	c.Split = nil
	if len(c.Shards) == 0 {
		return nil
	}
	refuse := func(given bool, text string) {
		if given {
			errs = append(errs, errors.New(text))
		}
	}
	refuse(len(c.Shards) == 1, "--to-shard is given once: give it for each of several targets, or use --to for one")
	refuse(len(c.Shards) > maxSplit, fmt.Sprintf("--to-shard is given %d times: at most %d targets are possible", len(c.Shards), maxSplit))
	refuse(c.To.MySQL.Addr != "" || c.To.IsDump(), "--to and --to-shard: give --to for one target, or --to-shard for each of several")
	refuse(c.From.IsDump(), "--to-shard: a dump has no binary log, which makes the parts consistent; load it into one server first")
	refuse(!c.Copy.Follow, "--to-shard requires --follow: each target reads its part at another moment, so that a row whose column changes could be in two targets or in none; "+
		"--follow-until caught-up ends the copy once all targets have caught up")
	if c.Cutover.On {
		refuse(c.From.Tare != "", "--cutover with --to-shard requires --from mysql://: it locks the source's tables, and makes the source read-only")
		refuse(c.OnReplica, "--cutover with --to-shard excludes --heartbeat-on-replica: making a replica read-only does not stop the writes to its primary")
		refuse(c.Heartbeat == HeartbeatOff, "--cutover with --to-shard requires heartbeats, which prove that each target has everything: omit --heartbeat off")
		c.Cutover.Options.Window = 0 // as config print shows it
		refuse(c.Throttle.Gateway.set() && c.Throttle.Limits.MaxP99 == 0, "--cutover with --to-shard uses no --gateway: the gateway switches clients to one backend, and does not choose a shard per statement; "+
			"the source becomes read-only instead, and clients are then started with the targets (docs/tasks/split-a-table.md)")
	}
	refuse(!c.Selection.Empty() || c.users, "--to-shard requires --tables with names: --schema, --users and patterns are not divided")
	for i, u := range c.Shards {
		refuse(slices.ContainsFunc(c.Shards[:i], func(other ControlURL) bool { return other.Addr == u.Addr }), fmt.Sprintf("--to-shard names %s twice", u.Addr))
	}
	if len(errs) > 0 || len(c.Copy.Tables) == 0 {
		return errs
	}
	parts := make([][]tabledef.Spec, len(c.Shards))
	for i := range parts {
		parts[i] = slices.Clone(c.Copy.Tables)
	}
	named := make(map[string]bool)
	for _, clause := range c.splits {
		if err := tabledef.AddSplit(parts, clause); err != nil {
			errs = append(errs, fmt.Errorf("--shard-by: %w", err))
			continue
		}
		table, _, _ := strings.Cut(clause, ":")
		table = strings.TrimSpace(table)
		refuse(named[table], fmt.Sprintf("--shard-by names %s twice", table))
		named[table] = true
	}
	for i := range c.Copy.Tables {
		name := c.Copy.Tables[i].Source()
		refuse(c.From.Tare != "" && parts[0][i].Lookup != nil, "--shard-by lookup requires --from mysql://: the lookup table is read on the source's server")
		refuse(!named[name] && len(errs) == 0, fmt.Sprintf("--shard-by is missing for %[1]s: such as '%[1]s: hash(id)', or '%[1]s: all' for all rows in each target", name))
	}
	c.Split = parts
	return errs
}

// Part returns the options of the copy to one of several targets.
func (c *Copy) Part(i int) *Copy {
	part := *c
	part.To, part.Copy.Tables, part.Control, part.Cutover.On = CopyTarget{MySQL: c.Shards[i]}, c.Split[i], ControlOff, false
	return &part
}
