package gateway_test

import (
	"testing"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// BenchmarkLogin logs in, runs a statement and quits, directly and through the gateway. It reports the CPU time of the server
// and this process, with the client's, per login.
func BenchmarkLogin(b *testing.B) {
	s := testmysql.Start(b)
	g := startGateway(b, s.Addr, func(o *gateway.Options) { o.Observers = nil })
	for name, addr := range map[string]string{"direct": s.Addr, "gateway": g.addr} {
		b.Run(name, func(b *testing.B) {
			cpu := cpuTime(b, s.Pid())
			for b.Loop() {
				c, err := mysqlconn.Dial(b.Context(), mysqlconn.Config{Addr: addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled})
				if err != nil {
					b.Fatal(err)
				}
				if _, err = c.Exec(b.Context(), "DO 0"); err != nil {
					b.Fatal(err)
				}
				_ = c.Close() // the next login does not depend on it
			}
			b.ReportMetric(float64((cpuTime(b, s.Pid())-cpu).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
		})
	}
}
