// Package gatewayclient calls the HTTP API of a gateway (tare serve): it pauses the gateway's clients,
// switches them between two servers, and reads the latency of their statements.
//
//	c := gatewayclient.New(&gatewayclient.Gateway{URL: "http://127.0.0.1:8316"})
//	defer c.Close()
//	token, err := c.Pause(ctx, time.Second)
//	switched, err := c.Switch(ctx, token, "standby", false) // or c.Release(ctx, token)
//
// # Terms
//
// A pause stops new commands and ends automatically after its duration; its token is required to switch or
// release. A pinned session has state on its server and cannot be switched, only closed.
//
// # Errors
//
// A [RefusedError] is a refusal by the gateway: its state is known. After any other error, a switch may have
// taken effect: read the Route. Errors contain no credentials. Each request has a time limit of a few
// seconds, besides the duration of a pause.
package gatewayclient
