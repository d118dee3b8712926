package gatewayclient_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
)

// Clients are paused, switched to the standby, and continue there.
func ExampleClient_Switch() {
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path { // a simulated tare serve --standby
		case "/api/v1/route/hold":
			fmt.Fprint(w, `{"held": true, "token": "4f1c"}`)
		case "/api/v1/route/switch":
			fmt.Fprint(w, `{"moved": 12, "closed": 0}`)
		}
	}))
	defer gateway.Close()

	c := gatewayclient.New(&gatewayclient.Gateway{URL: gateway.URL})
	defer c.Close()
	ctx := context.Background()
	token, err := c.Pause(ctx, time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	switched, err := c.Switch(ctx, token, "standby", false)
	if err != nil {
		fmt.Println(err, c.Release(ctx, token))
		return
	}
	fmt.Println(switched.Moved, "sessions moved")
	// Output: 12 sessions moved
}
