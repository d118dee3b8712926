package gateway_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var givenNumber = regexp.MustCompile(`\([0-9]+\) given`)

// TestPooledPackets compares the packets of responses directly and through shared connections: to files that clients send, executions with
// query attributes, and results without metadata, of two clients. A step that starts with ~ is not
// compared.
func TestPooledPackets(t *testing.T) {
	const base = scriptCaps&^(mysqlwire.CapConnectWithDB|mysqlwire.CapDeprecateEOF) | mysqlwire.CapPSMultiResults
	const typed, plain = "\x01\x08\x00", "\x00" // the flag of types, and that of a BIGINT
	const three, half = "\x03\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\xe0\x3f"
	type dialogues struct {
		caps  mysqlwire.Capability
		maria bool // the server has it
		steps []string
	}
	cases := map[string]dialogues{
		"files": {base | mysqlwire.CapDeprecateEOF, true, []string{
			"0: file text load data local infile 'f' into table t (v)", "1: text insert into u (v) values (5)", "0: text select last_insert_id(), count(*) from t",
			"0: file text load data local infile 'f' into table nowhere", "1: text do 1", "0: text show warnings",
			"0: file text load data local infile 'f' into table t (id)", "0: text show warnings", "1: text do 1", "0: text select count(*) from t",
			"0: prepare load data local infile 'f' into table t (v)", "1: text do 1", "0: file execute", "1: text do 1", "0: file execute", "0: text select last_insert_id(), max(id) from t",
			"0: file text load data local infile 'f' into table t (v); select 5", "1: text do 1", "0: text select last_insert_id(), max(id) from t",
			"0: file text load data local infile 'f' into table t (v) set v = @x := 4", "1: text select @x", "0: text select @x",
		}},
		"files, with EOF": {base, true, []string{
			"0: file text load data local infile 'f' into table t (v)", "1: text insert into u (v) values (5)", "0: text select last_insert_id(), count(*) from t",
			"0: file text load data local infile 'f' into table t (v) set id = 1, v = 'x'", "0: text show warnings", "1: text do 1", "0: text select count(*) from t",
		}},
		"attributes": {base | mysqlwire.CapDeprecateEOF | mysqlwire.CapQueryAttributes, false, []string{
			"0: prepare select ? + 1", "1: prepare select ? + 1",
			"0: execute 08\x01\x00" + typed + "\x00" + three, "1: execute 08\x01\x00\x01\x05\x00\x00" + half, "0: execute 08\x01\x00" + typed + "\x00" + three,
			"0: execute 08\x02\x00\x01\x08\x00\x00\x08\x00\x01a" + three + three, "1: text do 1", "1: execute 08\x01\x00" + plain + half,
			"0: execute 08\x02\x00\x01\x08\x00\x00\x08\x00\x01a" + three + three, "1: execute 08\x02\x00\x01\x05\x00\x00\x08\x00\x01a" + half + three,
			"0: execute 08\x01\x00" + plain + three, "1: execute 08\x01\x00" + plain + half, "0: execute 00\x01\x00" + plain + three,
			"0: prepare select 1", "1: prepare select 1", "0: execute 08\x01\x00\x01\x08\x00\x01a" + three, "1: execute 08\x00", "1: execute 08\x01\x00\x01\x08\x00\x01a" + three, "0: execute 08\x00",
		}},
		"no metadata": {base | mysqlwire.CapDeprecateEOF | mysqlwire.CapOptionalMetadata, false, []string{
			"0: text select v from t", "0: text set resultset_metadata = none", "1: text select v from t", "0: text select v from t", "0: prepare select v, id from t where id < ?",
			"1: prepare select v, id from t where id < ?", "0: execute 00\x00" + typed + three, "1: execute 00\x00" + typed + three, "0: text set resultset_metadata = full", "1: text do 1",
			"0: text select v from t", "0: execute 00\x00" + plain + three, "1: execute 00\x00" + plain + three, "0: command 1F", "1: text select v from t", "0: text select v from t",
		}},
		"tracking": {base | mysqlwire.CapDeprecateEOF | mysqlwire.CapSessionTrack, true, []string{
			"0: text use d1", "1: text do 1", "0: text set names latin1", "0: text set autocommit = 0", "0: text set sql_mode = ''", "1: text do 1", "0: text set autocommit = 1, sql_mode = 'ANSI'", "0: command 1F",
			"0: text set session_track_system_variables = 'group_concat_max_len'", "1: text do 1", "0: text set group_concat_max_len = 5", "0: command 1F", "0: command 02 d1",
			"~: text set session_track_state_change = on", "0: text set @a = 5", "0: text create temporary table tt (a int)", "0: text do 1", "0: command 1F", "0: text set @a = 6", "0: command 1F",
			"0: text set session_track_transaction_info = 'CHARACTERISTICS'", "0: text begin", "1: text do 1", "0: text select * from t", "0: text commit", "0: command 1F",
			"0: text set session_track_schema = off", "0: text use d1", "0: command 1F", "1: text use d1",
		}},
		"fields": {base, true, []string{"0: command 04 t\x00", "1: text do 1", "0: command 04 t\x00v", "0: command 04 nowhere\x00", "1: text do 1", "0: command 0E", "0: text select count(*) from t"}},
		"outputs": {base | mysqlwire.CapDeprecateEOF, true, []string{
			"0: prepare call p(?, @b)", "0: execute 00\x00" + typed + three, "1: text select @b", "0: text select @b", "0: command 1F",
			"1: prepare call p(?, ?)", "0: text do 1", "1: execute 00\x00\x01\x08\x00\x08\x00" + three + three, "0: text select @b", "1: execute 00\x00" + plain + three + three, "1: command 1F",
			"0: text call p(1, @b); select 5", "1: text select @b", "0: text select @b",
		}},
	}
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		t.Parallel()
		must(t, s.Exec("set global local_infile = 1"))
		r := startPooled(t, s, 3, nil)
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				if strings.Contains(t.Name(), "/MariaDB/") && !c.maria {
					t.Skip("MariaDB does not have it")
				}
				var setup []string
				for _, schema := range []string{"d1", "p1"} {
					setup = append(setup, "drop database if exists "+schema, "create database "+schema, "create table "+schema+".t (id int auto_increment primary key, v int)", "create table "+schema+".u (id int auto_increment primary key, v int) auto_increment = 1000",
						"create procedure "+schema+".p(in a int, out b int) begin set b = a + 1; select a; end", "insert into "+schema+".t (v) values (1), (2)")
				}
				must(t, s.Exec(setup...))
				var clients [2][2]*dialogue
				for i := range clients {
					for world, addr := range []string{s.Addr, r.addr} {
						clients[i][world] = openDialogue(t, addr, c.caps)
						_, err := clients[i][world].run("command 02 " + []string{"d1", "p1"}[world])
						must(t, err)
					}
				}
				refused := 0
				for _, step := range c.steps {
					var got [2]string
					for world := 1; world >= 0; world-- {
						r, err := clients[step[0]%2][world].run(step[3:])
						if err != nil {
							got[world] = err.Error()
						}
						for i, p := range r.packets {
							if r.cmd == mysqlwire.ComStmtPrepare && i == 0 && len(p) > 9 && p[4] == mysqlwire.MarkOK {
								clear(p[5:9]) // the number: servers use up some by preparing again
							}
							p = givenNumber.ReplaceAll(p, []byte("(N) given"))
							got[world] += fmt.Sprintf("%q\n", bytes.ReplaceAll(p, []byte("p1"), []byte("d1")))
						}
					}
					if strings.Contains(got[1], "Tare shares connections") {
						refused++
						continue
					}
					if got[1] != got[0] && step[0] != '~' { // ~: a SET of tracking, which servers may report or not
						t.Errorf("%q\n got %s\nwant %s", step, got[1], got[0])
					}
				}
				if refused > 1 {
					t.Errorf("%d steps were refused", refused)
				}
			})
		}
	})
}
