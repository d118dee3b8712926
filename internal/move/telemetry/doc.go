// Package telemetry defines how a running copy is observed: its events ([Event]), its status ([Status]), its
// lag, progress and waits. Their JSON forms are stable.
//
// A program receives events through copier.Options.Observe:
//
//	Observe: func(e telemetry.Event) {
//		if e.Kind == telemetry.EventLag {
//			log.Print(e.Lag.Text())
//		}
//	},
//
// It polls the status with control.Client.Status, over the copy's control socket. Fields are added to the
// JSON forms, but never renamed.
package telemetry
