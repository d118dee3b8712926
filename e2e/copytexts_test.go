//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
)

// definitionTexts are bodies of functions with all bytes that are a character alone, in strings and comments, and with ends
// and comments that a reader of statements could cut or execute.
func definitionTexts() (all []string) {
	for b := rune(1); b < 128; b++ { // servers end the text of SHOW CREATE at a NUL
		c := string(b)
		if c != "'" && c != `\` {
			all = append(all, "return '"+c+"'")
		}
		all = append(all, "begin /* "+c+" */ return '1'; end", "begin -- "+c+"\nreturn '2'; end")
	}
	for _, line := range []string{"\n", "\r\n", "\r", "\n\r", "\t", "\v", "\f", "\n\n"} {
		all = append(all, "begin"+line+"return '3';"+line+"end", line+"return '4'"+line, "return 'a"+line+"b'", "begin # x"+line+"\n return '5'; end")
	}
	return append(all,
		"return '6' -- at the end", "return '6' -- at the end\n", "return '6' # at the end", "return '6' #", "return '6' --", "return '6' -- ;", "return '6' /* ; */", "return '6' /* at the end",
		"return '7' /*! + 1 */", "return '7' /*!50000 + 1 */", "return '7' /*!99999 + 1 */", "return '7' /*!999999 + 1 */", "return '7' /*M! + 1 */", "return '7' /*M!100000 + 1 */", "return (select /*+ no_such_hint() */ '7')",
		"begin /*! select */ return '8'; end", "begin /* /* */ return '8'; end", "begin /*!50000 /* x */ */ return '8'; end", "begin return '8'; end;", "begin return '8'; end ; ",
		"return 'it''s'", `return 'it\'s'`, `return "it""s"`, `return '\\'`, `return '\n\r\0\Z\%\_'`, "return ';'", "return 'DELIMITER //'", "return '*/'", "return '-- '", "return 'é花😀'", "begin declare `a;b` int; return `a;b`; end",
	)
}

// TestCopyDefinitionTexts copies schemas with definitions of every kind whose texts have all bytes, ends of lines and comments: each is the same in the
// target, byte by byte.
func TestCopyDefinitionTexts(t *testing.T) {
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier with grant option")
	maria, other := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	for _, pair := range []struct {
		name     string
		from, to func(*testing.T) *testmysql.Server
	}{
		{"MariaDB", func(*testing.T) *testmysql.Server { return maria }, func(*testing.T) *testmysql.Server { return other }},
		{"MySQL", mysqlGTID.get, mysqlPlain.get},
	} {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			from, to := pair.from(t), pair.to(t)
			must(t, from.Exec("drop database if exists texts", "drop database if exists _tare", "create database texts character set utf8mb4", "create table texts.t (a int primary key, b text)"))
			must(t, to.Exec("drop database if exists texts", "drop database if exists _tare", "set global log_bin_trust_function_creators = 1"))
			created := 0
			object := func(kind, format, text string) {
				if from.Exec(fmt.Sprintf("create "+kind+" texts.x%d "+format, created, text)) == nil {
					created++
				}
			}
			for _, text := range definitionTexts() {
				object("function", "() returns varchar(40) character set utf8mb4 deterministic %s", text)
				selected := strings.Replace(strings.Replace(text, "return ", "select ", 1), "return ", "select ", 1)
				object("procedure", "() %s", selected)
				object("event", "on schedule every 1 year do %s", strings.ReplaceAll(selected, "select ", "do "))
				object("trigger", "before insert on texts.t for each row %s", strings.ReplaceAll(text, "return ", "set new.b = "))
				if strings.HasPrefix(selected, "select ") {
					object("view", "as %s", selected)
				}
			}
			want := definitionsOf(t, from)
			mustRun(t, "", binary, copyArgs(from, to, "--schema=texts", "--control-socket=off")...)
			got := definitionsOf(t, to)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%.5000s", d)
			}
			t.Logf("%d objects of %d texts", len(got), len(definitionTexts()))
			if len(got) < 1000 || created != len(want) {
				t.Errorf("%d objects, %d created, %d in the source", len(got), created, len(want))
			}
		})
	}
}

// definitionsOf returns the definitions in a schema as the server has them.
func definitionsOf(t *testing.T, s *testmysql.Server) []string {
	t.Helper()
	return texts(t, session(t, s), "select concat(routine_type, ' ', routine_name, ' ', hex(routine_definition)) from information_schema.routines where routine_schema = 'texts' union all"+
		" select concat('trigger ', trigger_name, ' ', hex(action_statement)) from information_schema.triggers where trigger_schema = 'texts' union all"+
		" select concat('event ', event_name, ' ', hex(event_definition)) from information_schema.events where event_schema = 'texts' union all"+
		" select concat('view ', table_name, ' ', hex(view_definition)) from information_schema.views where table_schema = 'texts' order by 1")
}
