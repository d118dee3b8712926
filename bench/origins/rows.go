package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"

	"google.golang.org/grpc"

	plain "github.com/taredb/tare/bench/baseline/rows"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A rowsCase specifies a child process.
type rowsCase struct {
	Twin   bool   // run the baseline
	Wire   string // address to copy from; empty for the streaming side
	Source string // address of the source server
	Target string // address of the target server
}

// rowsCost is the cost of a child process, as it measures itself.
type rowsCost struct {
	CPU    float64 // seconds, user and system
	Allocs uint64
	Rows   uint64 // of the copying side
}

const (
	rowsCount  = 500_000
	rowsRounds = 6
	rowsChunk  = 16 << 20
)

// measureRows repeats vitessio/vitess#7951: it sends the rows of a table from server to server over gRPC,
// through two measured processes.
func measureRows(old, new, out io.Writer, _ string) (err error) {
	var servers [2]*testmysql.Server
	for i := range servers {
		if servers[i], err = testmysql.New(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, servers[i].Close()) }()
	}
	const table = "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL) CHARACTER SET latin1"
	if err := servers[0].Exec("CREATE DATABASE rows_", "USE rows_", table,
		fmt.Sprintf("INSERT INTO t SELECT seq, seq * 7919 %% 1000003, RPAD(MD5(seq), 119, SHA1(seq)), RPAD(SHA1(seq), 59, MD5(seq)) FROM test.seq_1_to_%d", rowsCount),
		"ANALYZE TABLE t"); err != nil {
		return fmt.Errorf("fill the source: %w", err)
	}
	for range rowsRounds {
		var total [2]float64
		for i, w := range []io.Writer{old, new} {
			if err := servers[1].Exec("DROP DATABASE IF EXISTS _tare", "CREATE OR REPLACE DATABASE rows_", "USE rows_", table); err != nil {
				return fmt.Errorf("empty the target: %w", err)
			}
			stream, copied, err := rowsRound(rowsCase{Twin: i == 0, Source: servers[0].Addr, Target: servers[1].Addr})
			if err != nil {
				return err
			}
			if copied.Rows != rowsCount {
				return fmt.Errorf("%d rows were copied, want %d", copied.Rows, rowsCount)
			}
			for _, side := range []struct {
				name string
				cost rowsCost
			}{{"stream", stream}, {"copy", copied}, {"both", rowsCost{CPU: stream.CPU + copied.CPU, Allocs: stream.Allocs + copied.Allocs}}} {
				// An operation is a million rows.
				fmt.Fprintf(w, "BenchmarkRows/%s 1 %.0f ns/op %.4f allocs/row\n", side.name, side.cost.CPU*1e9*1e6/rowsCount, float64(side.cost.Allocs)/rowsCount)
			}
			total[i] = stream.CPU + copied.CPU
		}
		fmt.Fprintf(out, "CPU of both sides: %.2f s and %.2f s a million rows, %.2f times\n", total[0]*1e6/rowsCount, total[1]*1e6/rowsCount, total[1]/total[0])
	}
	return nil
}

// rowsRound runs both sides once.
func rowsRound(c rowsCase) (stream, copied rowsCost, err error) {
	var ready struct{ Addr string }
	server, err := startPart("rows", c, &ready)
	if err != nil {
		return stream, copied, err
	}
	c.Wire = ready.Addr
	client, err := startPart("rows", c, &copied)
	if err == nil {
		err = client.stop()
	}
	return stream, copied, errors.Join(err, server.stdin.Close(), server.out.Decode(&stream), server.cmd.Wait())
}

// rowsPart runs one side.
func rowsPart(spec []byte, in io.Reader, out io.Writer) error {
	var c rowsCase
	if err := json.Unmarshal(spec, &c); err != nil {
		return fmt.Errorf("read the case: %w", err)
	}
	do := c.stream
	if c.Wire != "" {
		do = c.copy
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows, err := do(in, out)
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return fmt.Errorf("weigh the process: %w", err)
	}
	cpu := float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	return json.NewEncoder(out).Encode(rowsCost{CPU: cpu, Allocs: after.Mallocs - before.Mallocs, Rows: rows})
}

func account(addr string) mysqlconn.Config {
	return mysqlconn.Config{Addr: addr, User: testmysql.RootUser, Password: testmysql.Password, MaxPacket: 1 << 30}
}

// stream serves rows until the end of in.
func (c *rowsCase) stream(in io.Reader, out io.Writer) (uint64, error) {
	var server *grpc.Server
	if c.Twin {
		plan := &plain.Plan{Index: 1, Count: 1, Output: []int{0, 1, 2, 3}}
		server = (&plain.Server{Source: account(c.Source), Plan: plan}).NewServer()
	} else {
		direct, err := binlog.OpenDirect(context.Background(), account(c.Source))
		if err != nil {
			return 0, err
		}
		defer direct.Close()
		service, err := wire.NewService(wire.ServiceOptions{Server: direct})
		if err != nil {
			return 0, err
		}
		server = service.NewServer()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		server.Stop()
	}()
	if err := json.NewEncoder(out).Encode(map[string]string{"Addr": l.Addr().String()}); err != nil {
		return 0, err
	}
	return 0, server.Serve(l)
}

// copy copies the table.
func (c *rowsCase) copy(io.Reader, io.Writer) (uint64, error) {
	ctx := context.Background()
	if c.Twin {
		return plain.Copy(ctx, c.Wire, "SELECT id, k, c, pad FROM rows_.t ORDER BY id", account(c.Target), "rows_.t", rowsChunk)
	}
	specs, err := tabledef.ParseTables("rows_.t")
	if err == nil {
		err = tabledef.AddShard(specs, "rows_.t: id=1/1")
	}
	if err != nil {
		return 0, err
	}
	report, err := copier.Run(ctx, copier.Options{
		From: copier.FromRemote(wire.RemoteOptions{Addr: c.Wire}), To: account(c.Target), Tables: specs,
		Tuning: copier.Tuning{Workers: 1, ChunkBytes: rowsChunk}, MayRun: func() bool { return true },
	})
	if err != nil {
		return 0, err
	}
	return uint64(report.Tables[0].Rows), nil
}
