//go:build e2e

package e2e

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// An evidence is the material about a failed round of kills: the events of all of its runs, the state in the
// target, the logs of both servers, and the source's binary log.
type evidence struct {
	source, target *testmysql.Server

	mu   sync.Mutex
	runs []*runEvents
}

// A runEvents is the output of one run.
type runEvents struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *runEvents) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// keepEvidence makes a failed round leave a directory, which it logs.
func keepEvidence(t *testing.T, source, target *testmysql.Server) *evidence {
	e := &evidence{source: source, target: target}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := os.MkdirTemp(os.Getenv("TARE_E2E_ARTIFACTS"), "tare-copy-failed-")
		if err != nil {
			t.Logf("keep what the round left: %v", err)
			return
		}
		e.write(t, dir)
		t.Logf("the round left its events, the state in the target and both servers' logs in %s", dir)
	})
	return e
}

// run starts recording the events of a run.
func (e *evidence) run(args []string) *runEvents {
	r := &runEvents{}
	fmt.Fprintf(r, "%q\n", args)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = append(e.runs, r)
	return r
}

func (e *evidence) write(t *testing.T, dir string) {
	put := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Log(err)
		}
	}
	for i, r := range e.runs {
		r.mu.Lock()
		put(fmt.Sprintf("run-%d.events", i), r.text.Bytes())
		r.mu.Unlock()
	}
	put("source.log", []byte(e.source.Log()))
	put("target.log", []byte(e.target.Log()))
	for _, table := range []string{"copy_table", "copy_chunk", "copy_follow", "copy_definition", "copy_cutover", "copy_verified", "copy_epoch"} {
		put(table+".txt", dumpTable(e.target, "_tare."+table))
	}
	e.keepLog(t, dir)
}

// keepLog copies the source's binary log, whose directory is removed with the server.
func (e *evidence) keepLog(t *testing.T, dir string) {
	db, err := sql.Open("mysql", e.source.DSN(testmysql.RootUser))
	if err != nil {
		t.Log(err)
		return
	}
	defer db.Close()
	var base string
	if err := db.QueryRow("select @@log_bin_basename").Scan(&base); err != nil {
		t.Log(err)
		return
	}
	files, err := filepath.Glob(base + ".*")
	if err != nil {
		t.Log(err)
	}
	for _, file := range files {
		log, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), log, 0o600)
		}
		if err != nil {
			t.Log(err)
		}
	}
}

// dumpTable returns a table's rows as text, or the error.
func dumpTable(s *testmysql.Server, table string) []byte {
	var out bytes.Buffer
	db, err := sql.Open("mysql", s.DSN(testmysql.RootUser))
	if err != nil {
		return []byte(err.Error())
	}
	defer db.Close()
	rows, err := db.Query("select * from " + table)
	if err != nil {
		return []byte(err.Error())
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return []byte(err.Error())
	}
	out.WriteString(strings.Join(names, "\t") + "\n")
	values := make([]any, len(names))
	for i := range values {
		values[i] = new(sql.RawBytes)
	}
	for rows.Next() {
		if err := rows.Scan(values...); err != nil {
			return append(out.Bytes(), err.Error()...)
		}
		for _, v := range values {
			fmt.Fprintf(&out, "%q\t", *v.(*sql.RawBytes))
		}
		out.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		out.WriteString(err.Error())
	}
	return out.Bytes()
}
