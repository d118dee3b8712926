package switchover_test

import (
	"fmt"
	"time"

	"github.com/taredb/tare/internal/gateway/switchover"
)

// A switch to the standby: the caller performs the acts that each event returns.
func ExampleMachine() {
	var m switchover.Machine
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	show := func(event string, acts []switchover.Act, err error) {
		fmt.Printf("%-28s %-10s %v", event, m.Stage, acts)
		if err != nil {
			fmt.Print(" ", err)
		}
		fmt.Println()
	}

	acts, err := m.Pause(now, "token", time.Second)
	show("pause", acts, err)
	show("3 sessions in transactions", m.Observe(now, 3), nil)
	show("none left", m.Observe(now, 0), nil)
	acts, err = m.Switch(now, "another token", switchover.Standby)
	show("switch by another client", acts, err)
	acts, err = m.Switch(now, "token", switchover.Standby)
	show("switch", acts, err)
	show("all sessions connected", m.Connected(now, nil), nil)
	show("route saved", m.Saved(nil), nil)
	fmt.Println("active:", m.Active)
	// Output:
	// pause                        gathering  [close the gate]
	// 3 sessions in transactions   gathering  []
	// none left                    held       [notify the holder]
	// switch by another client     held       [] there is no such hold: it was released, or its time was over
	// switch                       moving     [connect the sessions]
	// all sessions connected       saving     [save the route]
	// route saved                  open       [switch]
	// active: standby
}
