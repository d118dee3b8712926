package copier

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// refuseSharedServers returns an error if two parts write to the same table of the same server, which may have several
// addresses. Parts may have different tables of one server. It changes nothing.
func refuseSharedServers(ctx context.Context, parts []Options) error {
	first, err := firstAtServer(ctx, parts)
	if err != nil {
		return err
	}
	for i := range parts {
		for j := range parts[:i] {
			if first[i] != first[j] {
				continue
			}
			if table := sharedTable(parts[i].Tables, parts[j].Tables); table != "" {
				return fmt.Errorf("%s and %s are one server, and the rows of both parts would go to its table %s: each part requires a separate server; nothing was changed",
					parts[j].To.Addr, parts[i].To.Addr, table)
			}
		}
	}
	return nil
}

// firstAtServer returns for each part the number of the first part with the same server as its target.
func firstAtServer(ctx context.Context, parts []Options) ([]int, error) {
	p := serverProbe{lock: session.Literal("tare.split." + rand.Text())}
	defer p.close()
	for i := range parts {
		if err := p.add(ctx, &parts[i]); err != nil {
			return nil, fmt.Errorf("find out whether the targets are different servers: %s: %w", parts[i].To.Addr, err)
		}
	}
	return p.first, nil
}

// A serverProbe finds targets that are the same server. All its connections request one user lock: a server that refuses
// it has granted it to an earlier connection. Nodes of a cluster have separate user locks; there the lease of the tables
// refuses the second part.
type serverProbe struct {
	lock  string // quoted name
	conns []*mysqlconn.Client
	first []int // for each connection the first one to its server, which has the lock
}

// add connects to the target of the next part and finds the first connection to its server.
func (p *serverProbe) add(ctx context.Context, o *Options) error {
	c, err := connectTarget(ctx, o)
	if err != nil {
		return err
	}
	number := len(p.conns)
	p.conns = append(p.conns, c)
	granted, err := p.request(ctx, c)
	if err == nil && !granted {
		number, err = p.findHolder(ctx, c)
	}
	if err != nil {
		return err
	}
	p.first = append(p.first, number)
	return nil
}

// findHolder returns the number of the earlier connection that has the lock of the server of c.
func (p *serverProbe) findHolder(ctx context.Context, c *mysqlconn.Client) (int, error) {
	for number, first := range p.first {
		if first != number { // it does not have the lock
			continue
		}
		if same, err := p.sameServer(ctx, p.conns[number], c); err != nil || same {
			return number, err
		}
	}
	return 0, errors.New("the user lock is held by a session that is not known")
}

// sameServer reports whether c is granted the lock once holder has released it. Afterwards holder has it again.
func (p *serverProbe) sameServer(ctx context.Context, holder, c *mysqlconn.Client) (bool, error) {
	if err := p.release(ctx, holder); err != nil {
		return false, err
	}
	granted, err := p.request(ctx, c)
	if granted {
		err = p.release(ctx, c)
	}
	if _, again := p.request(ctx, holder); err == nil {
		err = again
	}
	return granted, err
}

// request requests the lock without waiting for it.
func (p *serverProbe) request(ctx context.Context, c *mysqlconn.Client) (granted bool, err error) {
	v, err := session.QueryValue(ctx, c, "SELECT GET_LOCK("+p.lock+", 0)")
	if err == nil && v != "0" && v != "1" {
		err = errors.New("the server grants no user lock")
	}
	return err == nil && v == "1", err
}

func (p *serverProbe) release(ctx context.Context, c *mysqlconn.Client) error {
	_, err := session.QueryValue(ctx, c, "SELECT RELEASE_LOCK("+p.lock+")")
	return err
}

// close closes all connections, which releases the locks.
func (p *serverProbe) close() {
	for _, c := range p.conns {
		_ = c.Close() // it only had a lock
	}
}

// connectTarget connects to the target of a part within its patience.
func connectTarget(ctx context.Context, o *Options) (*mysqlconn.Client, error) {
	checked := *o
	if err := checked.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checked.Patience, fmt.Errorf("no connection within %v", checked.Patience))
	defer cancel()
	return session.Connect(ctx, checked.To)
}

// sharedTable returns the name of a table that two parts write to. Names that differ only in case may be one table.
func sharedTable(a, b []tabledef.Spec) string {
	for _, x := range a {
		x.Defaults()
		if slices.ContainsFunc(b, func(y tabledef.Spec) bool {
			y.Defaults()
			return strings.EqualFold(x.Target(), y.Target())
		}) {
			return x.Target()
		}
	}
	return ""
}

// PlanSplit returns what Split.Run would do for each part, as Plan does for one.
func PlanSplit(ctx context.Context, parts []Options) ([][]PlannedTable, error) {
	if err := refuseSharedServers(ctx, parts); err != nil {
		return nil, err
	}
	all := make([][]PlannedTable, len(parts))
	for i := range parts {
		var err error
		if all[i], err = Plan(ctx, parts[i]); err != nil {
			return nil, fmt.Errorf("copy to %s: %w", parts[i].To.Addr, err)
		}
	}
	return all, nil
}
