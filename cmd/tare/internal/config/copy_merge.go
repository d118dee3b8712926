package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/tabledef"
)

// declareMerge declares the options of a copy from several sources.
func (c *Copy) declareMerge(s *Set) {
	s.in("Merge and split")
	declare(s, &c.Sources, Option{
		Name: "from-shard", Kind: "url", repeats: true,
		Help: "account on one of several sources to merge, instead of --from; repeated in order of the shards",
	}, parseControlURLs, formatControlURLs)
}

// validateMerge computes the tables of each source.
func (c *Copy) validateMerge() (errs []error) {
	c.Merge = nil
	if len(c.Sources) == 0 {
		return nil
	}
	refuse := func(given bool, text string) {
		if given {
			errs = append(errs, errors.New(text))
		}
	}
	refuse(len(c.Sources) == 1, "--from-shard is given once: give it for each of several sources, or use --from for one")
	refuse(len(c.Sources) > maxSplit, fmt.Sprintf("--from-shard is given %d times: at most %d sources are possible", len(c.Sources), maxSplit))
	refuse(c.From.given(), "--from and --from-shard: give --from for one source, or --from-shard for each of several")
	refuse(len(c.Shards) > 0, "--from-shard and --to-shard: merge the sources into one target, or split one source; for both, run one command after the other")
	refuse(c.To.IsDump(), "--from-shard: several sources have no common point in time, as a dump does; dump each of them")
	refuse(!c.Copy.Follow, "--from-shard requires --follow: the sources are read at different moments, and only the changes make the rows fit together; "+
		"--follow-until caught-up ends the copy once the target has caught up with all sources")
	refuse(c.Cutover.On, "--from-shard excludes --cutover: the gateway switches the clients of one backend; "+
		"pause the clients, run tare copy ctl finish, and start them with the target (docs/tasks/merge-tables.md)")
	refuse(!c.Selection.Empty() || c.users, "--from-shard requires --tables with names: --schema, --users and patterns are not merged")
	refuse(len(c.wheres)+len(c.shards)+len(c.names) > 0, "--from-shard excludes --where, --only-shard and --columns: tables are merged whole, so that each row is checked against --shard-by")
	for i, u := range c.Sources {
		refuse(slices.ContainsFunc(c.Sources[:i], func(other ControlURL) bool { return other.Addr == u.Addr }), fmt.Sprintf("--from-shard names %s twice", u.Addr))
	}
	if len(errs) > 0 || len(c.Copy.Tables) == 0 {
		return errs
	}
	parts, names := make([][]tabledef.Spec, len(c.Sources)), make([]string, len(c.Sources))
	for i := range parts {
		parts[i], names[i] = slices.Clone(c.Copy.Tables), string(c.Sources[i].Addr)
	}
	named := make(map[string]bool)
	for _, clause := range c.splits {
		table, _, _ := strings.Cut(clause, ":")
		table = strings.TrimSpace(table)
		if refuse(named[table], fmt.Sprintf("--shard-by names %s twice", table)); named[table] {
			continue
		}
		named[table] = true
		if err := tabledef.AddMerge(parts, names, clause); err != nil {
			errs = append(errs, fmt.Errorf("--shard-by: %w", err))
		}
	}
	for i := range c.Copy.Tables {
		name := c.Copy.Tables[i].Source()
		refuse(!named[name] && len(errs) == 0, fmt.Sprintf("--shard-by is missing for %[1]s: it says which source has which row, such as '%[1]s: hash(customer_id)' or '%[1]s: range(id, 1000000)'", name))
	}
	c.Merge = parts
	return errs
}

// SourcePart returns the options of the copy from one of several sources.
func (c *Copy) SourcePart(i int) *Copy {
	part := *c
	part.From, part.Copy.Tables, part.Control = CopySource{MySQL: c.Sources[i]}, c.Merge[i], ControlOff
	return &part
}
