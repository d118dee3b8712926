package throttle_test

import (
	"context"
	"fmt"

	"github.com/taredb/tare/internal/move/throttle"
)

// Runs a step of work at most at a quarter of full speed. Without limits, only the maximum set by SetLimits applies.
func ExamplePacer() {
	ctx := context.Background()
	p := throttle.NewPacer(throttle.PacerOptions{Observe: func(rate float64, reason string) {
		fmt.Println(rate, reason)
	}})
	defer p.Start(ctx, func(err error) { fmt.Println(err) })()

	quarter := 0.25
	if err := p.SetLimits(throttle.LimitChange{Share: &quarter}); err != nil {
		fmt.Println(err)
		return
	}
	w := p.Join() // one per goroutine
	if err := w.Begin(ctx); err != nil {
		fmt.Println(err)
		return
	}
	// Execute statements here. After each batch: if w.Due() { err = w.Wait(ctx) }
	w.End()
	fmt.Printf("%.2f of full speed, stopped: %v\n", p.Status().Share, p.Status().Stopped)
	// Output:
	// 0.25 held to 25 % of its speed by ctl throttle
	// 0.25 of full speed, stopped: false
}
