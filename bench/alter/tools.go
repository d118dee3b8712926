package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/testmysql"
)

// commands are the arguments of the tools, by name.
var commands = map[string]func(*lab) []string{
	"tare": func(l *lab) []string {
		return append(l.alter(), "--max-p99", fmt.Sprintf("%.0fus", 1000*l.limits.statement))
	},
	"tare-unlimited": (*lab).alter,
	"gh-ost":         (*lab).ghost,
	"gh-ost-throttled": func(l *lab) []string {
		return append(l.ghost(), fmt.Sprintf("--max-load=Threads_running=%d", l.o.threads))
	},
	"spirit": func(l *lab) []string {
		return []string{
			"--host=" + l.server.Addr, "--username=" + testmysql.RootUser, "--password=" + testmysql.Password, "--database=" + schema, "--table=" + table,
			"--alter=" + l.o.clauses,
		}
	},
	"pt-online-schema-change": func(l *lab) []string {
		return []string{
			"--alter", l.o.clauses, "--execute", "--no-check-replication-filters", "--recursion-method=none",
			fmt.Sprintf("h=127.0.0.1,P=%s,u=%s,p=%s,D=%s,t=%s", l.port(), testmysql.RootUser, testmysql.Password, schema, table),
		}
	},
}

// alter returns the arguments of tare alter without a limit.
func (l *lab) alter() []string {
	return append([]string{
		"alter", "--on", "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + l.server.Addr, "--table", full, l.o.clauses, "--always-copy",
		"--keep-old", "0", "--gateway", l.pages, "--control-socket", "off",
	}, l.o.flags...)
}

// ghost returns the arguments of gh-ost without a throttle.
func (l *lab) ghost() []string {
	return append(l.lockCheck(),
		"--host=127.0.0.1", "--port="+l.port(), "--user="+testmysql.RootUser, "--password="+testmysql.Password, "--database="+schema, "--table="+table,
		"--alter="+l.o.clauses, "--allow-on-master", "--assume-rbr", "--skip-port-validation", "--initially-drop-ghost-table", "--initially-drop-old-table", "--ok-to-drop-table",
		"--serve-socket-file="+l.dir+"/gh-ost.sock", "--execute")
}

func (l *lab) port() string {
	_, port, err := net.SplitHostPort(l.server.Addr)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return port
}

// program returns the path of a tool.
func (l *lab) program(name string) (string, error) {
	if strings.HasPrefix(name, "tare") {
		return l.tare, nil
	}
	name = strings.TrimSuffix(name, "-throttled")
	if path := *l.o.paths[name]; path != "" {
		return path, nil
	}
	path, err := programs.Look(name)
	if err != nil {
		err = fmt.Errorf("it is not in PATH: see go doc ./alter, or name it by -%s", name)
	}
	return path, err
}

// lockCheck is gh-ost's flag for a server without an instrument of metadata locks, such as MariaDB by default.
func (l *lab) lockCheck() []string {
	if l.o.product == "mariadb" {
		return []string{"--skip-metadata-lock-check"}
	}
	return nil
}
