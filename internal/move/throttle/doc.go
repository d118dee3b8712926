// Package throttle slows down work on MySQL servers to protect their other clients: it polls limited metrics
// (the lag of replicas, Threads_running, the result of a statement, the p99 of a gateway), and lets
// goroutines work for a fraction of the time.
//
//	p := throttle.NewPacer(throttle.PacerOptions{Limits: throttle.Options{
//		MaxLag: 5 * time.Second, Replicas: []mysqlconn.Config{{Addr: "db3:3306", User: "app"}},
//	}})
//	defer p.Start(ctx, fail)()
//
//	w := p.Join() // one Pace per goroutine
//	for work() {
//		if err := w.Begin(ctx); err != nil {
//			return err
//		}
//		// … execute statements; between batches: if w.Due() { err = w.Wait(ctx) }
//		w.End()
//	}
//
// # Terms
//
//   - The rate is the fraction of full speed at which the work may run, 0 to 1.
//   - The throttle is a pure core without I/O: readings of the metrics go in, the rate comes out.
//   - The [Pacer] enforces the rate through a gate that lets all goroutines work for a slice and then none.
//   - A [Pace] is one goroutine's handle of a pacer.
//   - A [Stream] is the pace of changes that are applied in order.
//
// # Costs and limits
//
// At full speed, Due costs one atomic read. Metrics are polled twice per second over one connection per
// server. A metric that is unavailable counts as over its limit: work pauses, and fails after
// Options.Patience.
//
// A [Live] records the p99 of a gateway over time, for pages.
package throttle
