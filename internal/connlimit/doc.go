// Package connlimit bounds what clients can open before they are authenticated: the connections of a listener and
// the requests in flight, in total and per client address. A connection whose peer reads nothing is closed.
package connlimit
