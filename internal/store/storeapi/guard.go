package storeapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// DefaultWriteTimeout is the default of Options.WriteTimeout.
const DefaultWriteTimeout = 30 * time.Second

// errSlowClient is the cause of a context that was cancelled because the client takes no data, or sends no
// complete request.
var errSlowClient = errors.New("the client is too slow")

type cancelKey struct{}

// withCancel returns a stream's context that a guard can cancel: nothing else unblocks SendMsg or RecvMsg.
func withCancel(stream context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(stream)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

// A guardedStream cancels its call if sending or receiving one message takes longer than
// Options.WriteTimeout. It must not be used concurrently.
type guardedStream struct {
	grpc.ServerStream
	api   *API
	timer *time.Timer // stopped while no message is sent or received

	compressed *compressedStream // nil: the response is not compressed
}

// guard returns the stream with a time limit per message.
func (a *API) guard(stream grpc.ServerStream) *guardedStream {
	cancel := stream.Context().Value(cancelKey{}).(context.CancelCauseFunc) // by API.limit
	g := &guardedStream{ServerStream: stream, api: a, timer: time.AfterFunc(a.options.WriteTimeout, func() { cancel(errSlowClient) })}
	g.timer.Stop()
	return g
}

// wait blocks until done has a value or the stream's context is done, at most for Options.WriteTimeout.
func wait(stream grpc.ServerStream, done <-chan struct{}) error {
	g, ok := stream.(*guardedStream)
	if ok {
		g.timer.Reset(g.api.options.WriteTimeout)
		defer g.timer.Stop()
	}
	select {
	case <-done:
		return nil
	case <-stream.Context().Done():
	}
	if ok {
		return g.slowError(context.Cause(stream.Context()))
	}
	return context.Cause(stream.Context())
}

// slowError returns the error of a call that was cancelled because its client takes no data. It returns other
// errors as they are.
func (g *guardedStream) slowError(err error) error {
	return g.guardError(err, "the client takes no data")
}

// guardError returns an error with the reason of a call that its guard cancelled. It returns other errors as
// they are.
func (g *guardedStream) guardError(err error, why string) error {
	if err == nil || !errors.Is(context.Cause(g.Context()), errSlowClient) {
		return err
	}
	g.api.cancelled.Add(1)
	return status.Error(codes.Aborted, fmt.Sprintf("%s for %s", why, g.api.options.WriteTimeout))
}

// RecvMsg implements grpc.ServerStream. It returns when the client has finished its request, which has one
// message, and cancels the call of a client that leaves it incomplete.
func (g *guardedStream) RecvMsg(m any) error {
	g.timer.Reset(g.api.options.WriteTimeout)
	err := g.ServerStream.RecvMsg(m)
	g.timer.Stop()
	if err != nil {
		return fmt.Errorf("receive request: %w", g.guardError(err, "the client sent no complete request"))
	}
	return nil
}

// SendMsg implements grpc.ServerStream.
func (g *guardedStream) SendMsg(m any) error {
	return guarded(g, func() error { return g.ServerStream.SendMsg(m) })
}

// guarded calls send, which sends one message of the stream. It cancels the call if that takes longer than
// Options.WriteTimeout.
func guarded(stream grpc.ServerStream, send func() error) error {
	g, ok := stream.(*guardedStream)
	if !ok {
		return send()
	}
	g.timer.Reset(g.api.options.WriteTimeout)
	err := send()
	g.timer.Stop()
	return g.slowError(err)
}
