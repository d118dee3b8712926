package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/taredb/tare/copier"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/web"
)

// copiesTimeout bounds one search for copies, including connecting.
const copiesTimeout = 5 * time.Second

// copiesOf returns a function that finds copies and alterations: those of this user that run on this machine
// and, if an account on the target is given, those recorded there. It connects for each call and keeps no state.
func copiesOf(target config.ControlURL) func(context.Context) web.Copies {
	return func(ctx context.Context) web.Copies {
		ctx, cancel := context.WithTimeout(ctx, copiesTimeout)
		defer cancel()
		var c web.Copies
		problem := func(err error) {
			if err != nil {
				c.Problems = append(c.Problems, err.Error())
			}
		}
		for _, sockets := range []func() (string, error){copier.ControlDir, alterControlDir} {
			dir, err := sockets()
			if err != nil {
				problem(err)
				break // the second is in the first
			}
			running, err := copier.RunningCopies(ctx, dir)
			problem(err)
			c.Sockets = append(c.Sockets, dir)
			for _, path := range slices.Sorted(maps.Keys(running)) {
				c.Running = append(c.Running, running[path])
			}
		}
		if target.Addr != "" {
			var err error
			c.Target = string(target.Addr)
			c.Jobs, err = jobsOf(ctx, target)
			problem(err)
		}
		return c
	}
}

func jobsOf(ctx context.Context, target config.ControlURL) ([]state.Job, error) {
	client, err := mysqlconn.Dial(ctx, mysqlServer(target, mysqlconn.TLSPreferred, nil))
	if err != nil {
		return nil, err
	}
	jobs, err := state.Jobs(ctx, client, "")
	_ = client.Close() // its responses have been read
	return jobs, err
}
