// Package cutover switches the clients of a gateway from the source of a copy to its target. For some time
// afterwards it writes the target's changes back to the source, so that the switch can be reverted without
// losing them.
//
// copier.Run uses it when copier.Options.Cutover is set. A caller configures it with [Options]:
//
//	copier.Options{
//		// …
//		Follow: true,
//		Cutover: &cutover.Options{
//			Gateway: gatewayclient.Gateway{URL: "http://127.0.0.1:8316"},
//			Back:    mysqlconn.Config{Addr: "db1:3306", User: "app", Password: password},
//			Lag:     cutover.DefaultLag,
//			Window:  24 * time.Hour,
//		},
//	}
//
// The machine, a pure core without I/O, decides the next step, and [Cutover] executes it. A record in the
// target has the progress of the cutover, so that a run that resumes the copy knows whose log it may apply.
// Clients are paused for at most Options.MaxPause per try. Package copier documents why no statement is lost.
package cutover
