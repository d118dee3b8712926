package explain

import (
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestEachStatementFails has a server fail to execute each statement of an EXPLAIN, in turn: none goes unnoticed.
func TestEachStatementFails(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, opts...)
			must(t, s.Exec("CREATE TABLE t (a INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (1, 1), (2, 2)"))
			b := newBench(t, s.Addr, testmysql.RootUser)
			conn, err := b.server.connect(t.Context())
			must(t, err)
			mode, id := b.server.mode(), conn.ConnectionID
			if name == "MariaDB" {
				_, err = conn.Query(t.Context(), "SELECT @@expensive_subquery_limit", func(row mysqlwire.TextRow) error {
					if string(row[0]) != "0" {
						t.Errorf("subqueries are evaluated up to %s rows", row[0])
					}
					return nil
				})
				must(t, err)
			}
			b.server.client.Release()
			if st := b.only(t, "SELECT * FROM t", mode); st.Why != "" {
				t.Errorf("not explained: %s", st.Why)
			}
			if conn, err = b.server.connect(t.Context()); err != nil || conn.ConnectionID != id {
				t.Errorf("the connection is not kept: %v", err)
			}
			b.server.close()
			proxy := testproxy.StartFaulty(t, s.Addr)
			for text, values := range map[string][]mysqlwire.BinaryValue{"SELECT * FROM t WHERE b > 1": nil, "UPDATE t SET b = ? WHERE a > ?": {longlong(1), longlong(1)}} {
				killed := 0
				proxy.EachFails(t, func() error {
					b := newBench(t, proxy.Addr, testmysql.RootUser)
					b.server = server{client: serverstats.NewClient(func() mysqlconn.Config {
						return mysqlconn.Config{Addr: proxy.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
					}), kill: func(string, uint32) error { killed++; return nil }}
					defer b.server.close()
					c := candidateOf(text, mode)
					b.all = []Candidate{c}
					b.refresh(t.Context())
					b.Observe(executed(c, text, time.Second, values...))
					plan, err := b.server.explain(t.Context(), (*b.candidates.Load())[c.Digest], b.judge)
					if err == nil && (len(plan.Steps) != 1 || plan.Steps[0].Table != "t") {
						t.Errorf("%s: %+v", text, plan)
					}
					return err
				}, "SELECT VERSION(), CONNECTION_ID(),") // repeated without variables that the server does not have
				if killed != 1 { // after the ROLLBACK that failed
					t.Errorf("%s: %d connections were killed", text, killed)
				}
			}
		})
	}
}
