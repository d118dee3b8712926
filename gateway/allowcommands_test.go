package gateway_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var rewriteCommands = flag.Bool("rewrite-commands", false, "add and remove the versions in "+commandsFile+" by what this server counts")

const commandsFile = "../internal/mysql/sqlplan/testdata/commands.txt"

// A countedCommand is a line of commandsFile.
type countedCommand struct {
	name     string // without Com_
	versions []string
	sql      string
}

func readCommands(t *testing.T) (head string, all []countedCommand) {
	t.Helper()
	text, err := os.ReadFile(commandsFile)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			head += line
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, countedCommand{f[0], strings.Fields(f[1]), f[2]})
	}
	return head, all
}

// TestDefaultDenyCommands compares the list of commands with the server's, and executes each statement in it as an account
// without privileges: the server parses it and counts it as that command. Through the gateway an allow rule with users
// only lets all of them pass, one with the type select and a table two.
func TestDefaultDenyCommands(t *testing.T) {
	for name, options := range refusalServers(t) {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, options...)
			must(t, s.Exec("create user plain@'%' identified by '"+testmysql.Password+"'", "create database shop"))
			if !strings.HasPrefix(name, "MySQL") {
				must(t, s.Exec("set global sql_mode = ORACLE"))
				must(t, s.Exec("create package shop.x as procedure p(); end"))
				must(t, s.Exec("set global sql_mode = default"))
			}
			g := startGateway(t, s.Addr, nil)
			version := valueOf(t, s.Addr, "SELECT VERSION()")
			version = strings.Join(strings.Split(version, ".")[:2], ".")
			compareCommands(t, version, counts(t, s.Addr))
			_, list := readCommands(t)
			list = slices.DeleteFunc(list, func(c countedCommand) bool { return c.sql == "" || !slices.Contains(c.versions, version) })
			if len(list) == 0 {
				t.Skipf("%s has no version %s", commandsFile, version)
			}
			for _, c := range list {
				if err := countedAs(t, s.Addr, c); err != nil {
					t.Errorf("%s: %v", c.sql, err)
				}
			}
			for _, rule := range []sqlplan.Rule{
				{Name: "users", Action: sqlplan.ActionAllow, Users: []string{"plain"}},
				{Name: "select", Action: sqlplan.ActionAllow, Types: []sqlplan.Type{sqlplan.TypeSelect}, Tables: []string{"shop.t"}},
			} {
				must(t, g.planner.SetRules([]sqlplan.Rule{rule}))
				for _, c := range list {
					err := execute(t, g.addr, c.sql)
					pass := rule.Name == "users" || c.sql == "SELECT a FROM shop.t" || c.sql == "SELECT a FROM shop.t INTO @a"
					if refused := err != nil && strings.Contains(err.Error(), "Tare refused"); refused == pass {
						t.Errorf("rule %s: %s: %v", rule.Name, c.sql, err)
					}
				}
			}
		})
	}
}

// unprivileged runs f with a connection of an account without privileges.
func unprivileged(t *testing.T, addr string, f func(query func(sql string, row func(mysqlwire.TextRow)) error)) {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: addr, User: "plain", Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true}})
	must(t, err)
	defer c.Close()
	f(func(sql string, row func(mysqlwire.TextRow)) error {
		_, err := c.Query(context.WithoutCancel(t.Context()), sql, func(r mysqlwire.TextRow) error {
			if row != nil {
				row(r)
			}
			return nil
		})
		var e *mysqlconn.ServerError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%s: %v", sql, err)
		}
		return err
	})
}

func valueOf(t *testing.T, addr, sql string) (value string) {
	t.Helper()
	unprivileged(t, addr, func(query func(string, func(mysqlwire.TextRow)) error) {
		must(t, query(sql, func(r mysqlwire.TextRow) { value = string(r[0]) }))
	})
	return value
}

func execute(t *testing.T, addr, sql string) (err error) {
	t.Helper()
	unprivileged(t, addr, func(query func(string, func(mysqlwire.TextRow)) error) { err = query(sql, nil) })
	return err
}

// counts returns the names of the commands that the server counts.
func counts(t *testing.T, addr string) (names []string) {
	t.Helper()
	unprivileged(t, addr, func(query func(string, func(mysqlwire.TextRow)) error) {
		must(t, query(`SHOW GLOBAL STATUS LIKE 'Com\_%'`, func(r mysqlwire.TextRow) { names = append(names, strings.TrimPrefix(string(r[0]), "Com_")) }))
	})
	return names
}

// compareCommands compares the list's commands of a version with the server's.
func compareCommands(t *testing.T, version string, names []string) {
	head, list := readCommands(t)
	if *rewriteCommands {
		writeCommands(t, head, list, version, names)
		return
	}
	known := map[string]bool{}
	for _, c := range list {
		if slices.Contains(c.versions, version) {
			known[c.name] = true
		}
	}
	if len(known) == 0 {
		return // a version without a column
	}
	for _, n := range names {
		if !known[n] {
			t.Errorf("%s counts %s, which is not in %s: go test ./gateway -run TestDefaultDenyCommands -rewrite-commands adds it", version, n, commandsFile)
		}
		delete(known, n)
	}
	for n := range known {
		t.Errorf("%s does not count %s, which is in %s", version, n, commandsFile)
	}
}

func writeCommands(t *testing.T, head string, list []countedCommand, version string, names []string) {
	have := map[string]bool{}
	for i := range list {
		c := &list[i]
		if !slices.Contains(names, c.name) {
			c.versions = slices.DeleteFunc(c.versions, func(v string) bool { return v == version })
		}
		have[c.name] = have[c.name] || slices.Contains(c.versions, version)
	}
	for _, n := range names {
		if !have[n] {
			list = append(list, countedCommand{n, []string{version}, ""})
		}
	}
	list = slices.DeleteFunc(list, func(c countedCommand) bool { return len(c.versions) == 0 })
	slices.SortStableFunc(list, func(a, b countedCommand) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	b.WriteString(head)
	for _, c := range list {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", c.name, strings.Join(c.versions, " "), c.sql)
	}
	must(t, os.WriteFile(commandsFile, []byte(b.String()), 0o600))
}

// countedAs executes a statement and returns an error unless the server counts it as the command.
func countedAs(t *testing.T, addr string, c countedCommand) error {
	before, after := map[string]string{}, map[string]string{}
	var failed error
	unprivileged(t, addr, func(query func(string, func(mysqlwire.TextRow)) error) {
		const status = `SHOW SESSION STATUS LIKE 'Com\_%'`
		if strings.Contains(c.name, "package") {
			must(t, query("SET sql_mode = ORACLE", nil))
		}
		must(t, query(status, func(r mysqlwire.TextRow) { before[string(r[0])] = string(r[1]) }))
		failed = query(c.sql, nil)
		if err := query(status, func(r mysqlwire.TextRow) { after[string(r[0])] = string(r[1]) }); err != nil {
			failed = errors.Join(failed, err)
		}
	})
	var e *mysqlconn.ServerError
	if errors.As(failed, &e) && e.Number == mysqlwire.ErrnoSyntax {
		return failed
	}
	if name := "Com_" + c.name; before[name] == after[name] {
		var other []string
		for n, v := range after {
			if before[n] != v && n != "Com_show_status" {
				other = append(other, n)
			}
		}
		return fmt.Errorf("the server counts it as %v, not as %s: %w", other, name, failed)
	}
	return nil
}
