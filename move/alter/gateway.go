package alter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/httpclient"
)

// maxPause is the longest pause of clients that a gateway accepts.
const maxPause = 30 * time.Second

// openGateway returns a client of the gateway that may pause clients; nil if there is none, or its account may not.
func (r *run) openGateway(ctx context.Context) (*gatewayclient.Client, error) {
	if r.o.Gateway.URL == "" {
		return nil, nil
	}
	g := gatewayclient.New(&r.o.Gateway)
	_, err := g.Route(ctx)
	if err == nil {
		err = g.MaySwitch(ctx)
	}
	if err == nil {
		return g, nil
	}
	g.Close()
	e, ok := errors.AsType[*httpclient.StatusError](err)
	if !errors.As(err, new(gatewayclient.RefusedError)) || ok && e.Code == http.StatusUnauthorized {
		return nil, fmt.Errorf("pause clients through the gateway: %w", err)
	}
	r.notify("clients are not paused at the swap, but wait for the table's lock: %v", err)
	return nil, nil
}

// pauseClients pauses the clients of the gateway, for at most the time that clients may wait for a lock: the pause ends by then, whatever
// becomes of this process. It returns once none of them is within a statement or a transaction.
func (w *swapper) pauseClients(ctx context.Context) (release func(), err error) {
	if w.gateway == nil {
		return func() {}, nil
	}
	began := time.Now()
	token, err := w.gateway.Pause(ctx, min(w.o.MaxLockWait, maxPause))
	if err != nil {
		w.report.paused(began)
		return nil, fmt.Errorf("pause clients through the gateway: %w", err)
	}
	return func() {
		err := w.gateway.Release(context.WithoutCancel(ctx), token)
		w.report.paused(began)
		if err != nil {
			w.notify("the pause of clients was over before the swap: %v", err)
		}
	}, nil
}

// paused records a pause that began at a time.
func (c *CopyReport) paused(began time.Time) {
	c.GatewayPauses++
	c.GatewayPauseSeconds = max(c.GatewayPauseSeconds, time.Since(began).Seconds())
}
