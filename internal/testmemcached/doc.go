// Package testmemcached is a memcached server in memory for tests, whose values can be changed and whose responses can
// stop. It has the commands that internal/store/sharedcache uses, and no eviction.
package testmemcached
