package copier

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/rowstream"
)

// refuseSharedServers returns an error if two parts write to the same table of the same server, which may have several
// addresses. Parts may have different tables of one server. It changes nothing.
//
// All connections request one user lock: a server that refuses it has granted it to an earlier connection. Nodes of a
// cluster have separate user locks; there the lease of the tables refuses the second part.
func refuseSharedServers(ctx context.Context, parts []Options) error {
	var there []*mysqlconn.Client
	defer func() {
		for _, c := range there {
			_ = c.Close() // it only had a lock
		}
	}()
	name := rowstream.Quote("tare.split." + rand.Text())
	request := func(c *mysqlconn.Client) (granted bool, err error) {
		v, err := rowstream.QueryValue(ctx, c, "SELECT GET_LOCK("+name+", 0)")
		if err == nil && v != "0" && v != "1" {
			err = errors.New("the server grants no user lock")
		}
		return v == "1", err
	}
	servers := make([]int, len(parts)) // for each part the first part at its server
	for i := range parts {
		granted := false
		c, err := connectTarget(ctx, &parts[i])
		if err == nil {
			there = append(there, c)
			servers[i] = i
			granted, err = request(c)
		}
		for j := 0; err == nil && !granted; j++ {
			if j == i {
				err = errors.New("the user lock is held by a session that is not known")
				break
			}
			if servers[j] != j {
				continue
			}
			if _, err = rowstream.QueryValue(ctx, there[j], "SELECT RELEASE_LOCK("+name+")"); err != nil {
				break
			}
			if granted, err = request(c); err == nil && granted {
				servers[i] = j
				_, err = rowstream.QueryValue(ctx, c, "SELECT RELEASE_LOCK("+name+")")
			}
			if _, again := request(there[j]); err == nil {
				err = again
			}
		}
		if err != nil {
			return fmt.Errorf("find out whether the targets are different servers: %s: %w", parts[i].To.Addr, err)
		}
	}
	for i := range parts {
		for j := range parts[:i] {
			if servers[i] != servers[j] {
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

// connectTarget connects to the target of a part within its patience.
func connectTarget(ctx context.Context, o *Options) (*mysqlconn.Client, error) {
	checked := *o
	if err := checked.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checked.Patience, fmt.Errorf("no connection within %v", checked.Patience))
	defer cancel()
	return rowstream.Connect(ctx, checked.To)
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
