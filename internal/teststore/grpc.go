package teststore

import (
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testgrpc"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/vtcodec"
)

// Dial serves a gRPC server on a port of the loopback interface and returns a connection to it.
func Dial(tb testing.TB, s *grpc.Server, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	addr := testgrpc.Serve(tb, s)
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(vtcodec.Codec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	}, options...)
	c, err := grpc.NewClient(addr, options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Equal returns the matcher of a label's value.
func Equal(name, value string) *storepb.LabelMatcher {
	return &storepb.LabelMatcher{Type: storepb.LabelMatcher_EQ, Name: name, Value: value}
}

// Regexp returns the matcher of a label's values that match a regular expression.
func Regexp(name, value string) *storepb.LabelMatcher {
	return &storepb.LabelMatcher{Type: storepb.LabelMatcher_RE, Name: name, Value: value}
}

// Everything returns a request for all series.
func Everything() *storepb.SeriesRequest {
	return &storepb.SeriesRequest{MinTime: math.MinInt64, MaxTime: math.MaxInt64, Matchers: []*storepb.LabelMatcher{Regexp("__name__", ".*")}}
}

// EverythingIn returns a request for all series of a testblock.Shape.
func EverythingIn() *storepb.SeriesRequest {
	r := Everything()
	r.Matchers = []*storepb.LabelMatcher{Equal("foo", "bar")}
	r.ResponseBatchSize = 64
	return r
}

// Receive reads a response to its end: series and the last hints.
func Receive(stream grpc.ServerStreamingClient[storepb.SeriesResponse], err error) ([]*storepb.SeriesResponse, *storepb.SeriesResponseHints, error) {
	if err != nil {
		return nil, nil, err
	}
	var series []*storepb.SeriesResponse
	var hints *storepb.SeriesResponseHints
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return series, hints, nil
		}
		if err != nil {
			return series, hints, err
		}
		if h := r.GetHints(); h != nil {
			hints = &storepb.SeriesResponseHints{}
			if err := hints.UnmarshalVT(h.GetValue()); err != nil {
				return series, hints, err
			}
			continue
		}
		series = append(series, r)
	}
}

// UntilFast repeats a call while it is disconnected: on a busy machine the test can be too slow for the write
// time limit, which is short in tests.
func UntilFast[T any](tb testing.TB, what string, call func() (T, error)) (value T) {
	tb.Helper()
	testwait.UntilState(tb, what, func() (string, bool) {
		v, err := call()
		if code := status.Code(err); err != nil && code != codes.Aborted && code != codes.Canceled && !errors.Is(err, io.EOF) {
			tb.Fatalf("%s: %v", what, err)
		}
		value = v
		return fmt.Sprint(err), err == nil
	})
	return value
}
