//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

var writeMatrix = flag.Bool("matrix.write", false, "write the matrix of clients and servers to docs/reference/clients.md")

// The page with the matrix, and its position there.
const (
	matrixPage  = "../docs/reference/clients.md"
	matrixBegin = "<!-- matrix: make e2e -->\n"
	matrixEnd   = "<!-- end of the matrix -->\n"
)

// matrixServers are the columns of the matrix: products and versions.
var matrixServers = []string{"MariaDB 10.11", "MariaDB 11.8", "MySQL 8.0", "MySQL 8.4", "MySQL 9.7", "TiDB 8.4"}

// A matrixServer is one server to use directly and through.
type matrixServer struct {
	name     string // of its column; each version has a column
	addr     string
	accounts []string // one per authentication method; the first runs the whole transcript
	exec     func(statements ...string) error
}

// A matrixClient is a driver or a program.
type matrixClient struct {
	name string

	prepare func(t *testing.T) // installs it; nil when e2e/run has done so

	// run returns the output of the client; a successful login ends in done. whole selects everything that
	// applications do.
	run func(t *testing.T, addr, user, schema, security string, whole bool) string

	plainOnly bool
}

const matrixDone = "done\n"

// A matrixCell is the outcome of a client at a server.
type matrixCell struct {
	state string // pass, FAIL, or n/a: the client cannot log in directly either
}

// TestMatrix runs the same transcript of each client at each server directly and through Tare, with and
// without TLS, by each authentication method: the client's outputs are equal. A combination that does not
// work directly is not tested.
func TestMatrix(t *testing.T) {
	servers, missing := startMatrixServers(t)
	clients := matrixClients(t)
	columns := slices.Clone(matrixServers)
	for _, s := range servers {
		if !slices.Contains(columns, s.name) {
			columns = append(columns, s.name)
		}
	}
	cells := make(map[[2]string]matrixCell)
	for _, c := range clients {
		t.Run(strings.ReplaceAll(c.name, "/", "-"), func(t *testing.T) {
			if c.prepare != nil {
				c.prepare(t)
			}
			for _, s := range servers {
				t.Run(s.name, func(t *testing.T) {
					key := [2]string{c.name, s.name}
					cells[key] = matrixCell{state: "FAIL"}
					worked := matrixRun(t, c, s)
					switch {
					case t.Failed():
					case worked:
						cells[key] = matrixCell{state: "pass"}
					default:
						cells[key] = matrixCell{state: "n/a"}
					}
				})
			}
		})
		if *writeMatrix { // after each client: a run may be stopped
			writeMatrixPage(t, columns, clients, cells, missing)
		}
	}
	fmt.Printf("clients and servers:\n%s", matrixText(columns, clients, cells, nil, missing))
	for _, d := range pooledDifferences {
		if *pooled != "" && d.ran && !d.occurs {
			t.Errorf("with shared connections, %q of %s is as it is directly: remove the difference from pooledDifferences", d.lines, d.client)
		}
	}
	for key, was := range matrixCells(readMatrixPage(t).table) {
		if now, ok := cells[key]; ok && now.state != was && (was == "pass" || now.state == "FAIL") {
			t.Errorf("%s at %s: %s; %s has %q", key[0], key[1], now.state, filepath.Base(matrixPage), was)
		}
	}
}

// matrixRun compares a client's transcripts at a server. It reports whether the client could use the server
// directly.
func matrixRun(t *testing.T, c matrixClient, s matrixServer) (worked bool) {
	p := startTare(t, s.addr)
	schema := "matrix"
	clean := []string{"drop database if exists " + schema, "create database " + schema + " character set utf8mb4"}
	for _, security := range []string{"plain", "tls"} {
		if c.plainOnly && security == "tls" {
			continue
		}
		whole := true
		for _, user := range s.accounts {
			var saw [2]string
			for j, addr := range []string{s.addr, p.addr} {
				must(t, s.exec(clean...))
				saw[j] = c.run(t, addr, user, schema, security, whole)
			}
			through := strings.ReplaceAll(saw[1], port(t, p.addr), port(t, s.addr)) // an address may differ
			ends := strings.HasSuffix(saw[0], matrixDone)
			if ends {
				acceptPooled(c.name, s.name+" "+security, &saw[0], &through)
			}
			if through != saw[0] && (ends || *pooled == "") { // with shared connections, the gateway has other methods of authentication
				t.Errorf("%s, account %s: through Tare it differs: %s", security, user, difference(through, saw[0]))
				continue
			}
			if !ends {
				t.Logf("does not work directly either: account %s, %s: %.200s", user, security, lastCause(saw[0]))
				continue
			}
			if before, after, ok := strings.Cut(saw[0], "tls on the backend's leg: "); !ok || strings.HasPrefix(after, "1") != (security == "tls") {
				t.Errorf("TLS %s: %.200s", security, before+after)
			}
			worked, whole = true, false
		}
	}
	return worked
}

// matrixText returns the matrix as a table, with the reasons for untested cells. Cells that were not run keep
// their state from old if there was a server.
func matrixText(columns []string, clients []matrixClient, cells map[[2]string]matrixCell, old map[[2]string]string, missing map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| client | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, c := range clients {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, column := range columns {
			key := [2]string{c.name, column}
			state := "untested"
			if cell, ok := cells[key]; ok {
				state = cell.state
			} else if was, ok := old[key]; ok {
				state = was
			}
			fmt.Fprintf(&b, " %s |", state)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	for _, column := range columns {
		if why, ok := missing[column]; ok {
			fmt.Fprintf(&b, "- untested, %s: %s\n", column, why)
		}
	}
	return b.String()
}

// A matrixDoc is the page with the table.
type matrixDoc struct{ before, table, after string }

func readMatrixPage(t *testing.T) matrixDoc {
	t.Helper()
	text, err := os.ReadFile(matrixPage)
	must(t, err)
	before, rest, ok := strings.Cut(string(text), matrixBegin)
	table, after, ended := strings.Cut(rest, matrixEnd)
	if !ok || !ended {
		t.Fatalf("%s has no place for the matrix", matrixPage)
	}
	return matrixDoc{before, table, after}
}

func writeMatrixPage(t *testing.T, columns []string, clients []matrixClient, cells map[[2]string]matrixCell, missing map[string]string) {
	t.Helper()
	p := readMatrixPage(t)
	table := matrixText(columns, clients, cells, matrixCells(p.table), missing)
	must(t, os.WriteFile(matrixPage, []byte(p.before+matrixBegin+table+matrixEnd+p.after), 0o644))
}

// matrixCells parses the states of a table written by matrixText.
func matrixCells(text string) map[[2]string]string {
	cells := make(map[[2]string]string)
	var columns []string
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		switch {
		case len(fields) < 2 || strings.HasPrefix(fields[0], "---"):
		case columns == nil:
			columns = fields
		default:
			for i := 1; i < len(fields) && i < len(columns); i++ {
				cells[[2]string{fields[0], columns[i]}] = fields[i]
			}
		}
	}
	return cells
}

// matrixPassword is the password of all accounts.
const matrixPassword = testmysql.Password
