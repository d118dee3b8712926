package follow_test

import (
	"context"
	"fmt"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/telemetry"
)

// Follows until the target has caught up. The source, the tables and the writers come from a copy.
func ExampleFollower_Run() {
	var o follow.Options // Source, Tables, From, State and Writer must be set
	o.UntilCaughtUp = true
	o.Waits = &telemetry.Waits{Observe: func(telemetry.Event) {}}
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventLag {
			fmt.Println(e.Lag.Text())
		}
	}
	f, err := follow.New(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := f.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the target has everything before", f.Report().Position)
}
