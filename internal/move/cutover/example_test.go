package cutover_test

import (
	"fmt"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// Configures a switch whose changes are written back to the source for a day. Options are set as
// copier.Options.Cutover, together with Follow.
func ExampleOptions() {
	o := cutover.Options{
		Gateway: gatewayclient.Gateway{URL: "http://127.0.0.1:8316"},
		Back:    mysqlconn.Config{Addr: "db1:3306", User: "app"},
		Lag:     cutover.DefaultLag,
		Window:  24 * time.Hour,
	}
	if err := o.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("clients are paused for at most %v, up to %d times\n", o.MaxPause, o.Tries)

	o.MaxPause = time.Minute
	fmt.Println(o.Validate())
	// Output:
	// clients are paused for at most 1s, up to 10 times
	// a cutover that holds clients for 1m0s: use more than 0 and at most 30s
}
