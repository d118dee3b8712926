package storeapi

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
)

// TestToken calls an API that requires a token, before and after it is replaced.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	if _, err := (testblock.Shape{Count: 2, Samples: 5}).Write(dir, testblock.Options{}); err != nil {
		t.Fatal(err)
	}
	token := NewToken("first")
	conn := teststore.Dial(t, New(teststore.Open(t, dir, nil), Options{Token: token}).NewServer())
	check := func(what string, ctx context.Context, want codes.Code) {
		t.Helper()
		_, err := storepb.NewInfoClient(conn).Info(ctx, &storepb.InfoRequest{})
		_, _, seriesErr := teststore.Receive(storepb.NewStoreClient(conn).Series(ctx, teststore.Everything()))
		_, labelsErr := storepb.NewStoreClient(conn).LabelNames(ctx, &storepb.LabelNamesRequest{End: 1})
		for _, err := range []error{err, seriesErr, labelsErr} {
			if status.Code(err) != want || err != nil && (!strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "first")) {
				t.Errorf("%s: got %v, want %s", what, err, want)
			}
		}
	}
	with := func(values ...string) context.Context {
		ctx := t.Context()
		for _, v := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
		}
		return ctx
	}
	check("the token", with("Bearer first"), codes.OK)
	check("none", with(), codes.Unauthenticated)
	check("another", with("Bearer other"), codes.Unauthenticated)
	check("no bearer", with("first"), codes.Unauthenticated)
	check("two", with("Bearer first", "Bearer first"), codes.Unauthenticated)
	token.Set("second")
	check("the replaced token", with("Bearer first"), codes.Unauthenticated)
	check("the new token", with("Bearer second"), codes.OK)
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health without a token: %v", err)
	}
}
