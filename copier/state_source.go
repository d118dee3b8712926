package copier

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// The state records the source by its identity (rowstream.ServerIdentity), so that it is found again under another address, and
// another server under the same address is noticed; over tare:// too, where the reader reports it. Until form 4 of the state all sources
// were recorded by address, and later ones over tare:// for a while; such records are converted when their table is resumed.
//
// An identity proves little: clones and restored data directories share it, a failover changes it. Where changes are followed the
// log proves more, by its last heartbeat: then another identity is accepted, and following stops unless that heartbeat is
// in the log.

// findSource finds out what the source is recorded as.
func (r *run) findSource(ctx context.Context) (err error) {
	r.source, err = r.from.Identity(ctx)
	return err
}

// isIdentity reports whether a recorded source is an identity.
func isIdentity(source string) bool {
	return strings.HasPrefix(source, "mysql ") || strings.HasPrefix(source, "mariadb ")
}

// recordedSources returns the sources that the rows of the tables are recorded to come from.
func (s state) recordedSources(ctx context.Context, c *mysqlconn.Client, specs []TableSpec) (all []string, err error) {
	for i := range specs {
		source, err := queryValue(ctx, c, "SELECT source FROM "+s.tables()+specs[i].where())
		if absent(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the state of %s in the target: %w", specs[i].target(), err)
		}
		if source != "" && !slices.Contains(all, source) {
			all = append(all, source)
		}
	}
	return all, nil
}

// sources returns what the source may be recorded as: its identity, its address, and what is recorded.
func (r *run) sources(ctx context.Context) ([]string, error) {
	recorded, err := r.state.recordedSources(ctx, r.to, r.o.Tables)
	return append([]string{r.source, r.from.Addr()}, recorded...), err
}

// acceptSource refuses a source that is not the recorded one. With --restart nothing is resumed.
func (r *run) acceptSource(ctx context.Context) error {
	for i := range r.o.Tables {
		spec := &r.o.Tables[i]
		var recorded, position string
		_, err := r.to.Query(ctx, "SELECT source, position FROM "+r.state.tables()+spec.where(), func(row mysqlwire.TextRow) error {
			recorded, position = string(row[0]), string(row[1])
			return nil
		})
		if absent(err) || r.o.Restart {
			return nil
		}
		if err == nil && recorded != "" {
			err = r.mayBe(spec, recorded, position)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mayBe refuses a source that is not the one that is recorded for a table.
func (r *run) mayBe(spec *TableSpec, recorded, position string) error {
	if recorded == r.source || !isIdentity(recorded) && recorded == r.from.Addr() {
		return nil
	}
	p, err := binlog.ParsePosition(position)
	if err == nil && r.o.Follow && isIdentity(recorded) && p.GTID != "" && p.Beat != "" {
		return nil // the log is to prove that it continues
	}
	try := "; repeat its command to resume it, or use --restart"
	if isIdentity(r.source) {
		try += fmt.Sprintf("; if it is certain that it is the same server, which has got another identity or address, UPDATE %s SET source = %s%s in the target",
			r.state.tables(), literal(r.source), spec.where())
	}
	return fmt.Errorf("resume the copy to %s: its rows came from %s, not from %s at %s%s", spec.target(), recorded, r.source, r.from.Addr(), try)
}

// adoptSource records the source as it is known now in place of what is recorded of it and was accepted, and the records of following
// these tables under the name that they have now. With --restart what is recorded may be of another server.
func (r *run) adoptSource(ctx context.Context) error {
	sources := []string{r.from.Addr()}
	if !r.o.Restart {
		recorded, err := r.state.recordedSources(ctx, r.to, r.o.Tables)
		if err != nil {
			return err
		}
		sources = append(sources, recorded...)
	}
	now := r.state.followed(r.source, r.o.Tables)
	for _, source := range sources {
		old := now.formerID(source)
		err := r.state.lease.write(ctx, r.to, func() error {
			for _, table := range []string{r.state.follows(), r.state.cutovers()} {
				there, err := queryValue(ctx, r.to, "SELECT COUNT(*) FROM "+table+now.where()+" FOR UPDATE")
				if err == nil && there == "0" {
					err = change(ctx, r.to, "UPDATE "+table+" SET id = "+literal(now.id)+" WHERE id = "+literal(old), 0, 1)
				}
				if err == nil && source != r.source {
					err = change(ctx, r.to, "UPDATE "+table+" SET source = "+literal(r.source)+" WHERE source = "+literal(source))
				}
				if absent(err) { // nothing was followed
					err = nil
				}
				if err != nil {
					return err
				}
			}
			if source == r.source {
				return nil
			}
			for i := range r.o.Tables {
				if err := change(ctx, r.to, "UPDATE "+r.state.tables()+" SET source = "+literal(r.source)+r.o.Tables[i].where()+" AND source = "+literal(source), 0, 1); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("record the identity of the source in schema %s of the target: %w", r.state.schema, err)
		}
	}
	return nil
}

// among is an SQL list of texts.
func among(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = literal(s)
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

// swappedFrom reports whether a source that is recorded in the source is the target.
func (r *run) swappedFrom(ctx context.Context, recorded string) bool {
	if isIdentity(recorded) {
		identity, err := rowstream.ServerIdentity(ctx, r.to)
		return err == nil && identity == recorded
	}
	if recorded == r.o.To.Addr {
		return true
	}
	same, err := isServer(ctx, r.to, r.o.To, recorded)
	return err == nil && same // a recorded server that is unreachable is not the target
}
