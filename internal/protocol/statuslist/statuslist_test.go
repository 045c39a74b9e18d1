package statuslist_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/statuslist"
)

// decode returns the bytes of an encoded list.
func decode(t *testing.T, encoded string) []byte {
	t.Helper()
	compressed := testkit.Value(base64.RawURLEncoding.DecodeString(encoded))(t)
	r := testkit.Value(zlib.NewReader(bytes.NewReader(compressed)))(t)
	return testkit.Value(io.ReadAll(r))(t)
}

// The list of draft-ietf-oauth-status-list, section 4.1, which has 16 entries.
func TestEncodeVectorOfTheDraft(t *testing.T) {
	list := make(statuslist.Bits, 2)
	statuses := []int{1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1}
	for i, status := range statuses {
		if status == 1 {
			list.SetInvalid(i)
		}
	}
	testkit.Diff(t, "bytes", []byte{0xb9, 0xa3}, []byte(list))
	for i, status := range statuses {
		if list.IsInvalid(i) != (status == 1) {
			t.Errorf("entry %d is INVALID: %t, want %t", i, list.IsInvalid(i), status == 1)
		}
	}
	testkit.Diff(t, "decoded bytes", []byte{0xb9, 0xa3}, decode(t, list.Encode()))
	// The list that the draft has encoded; the compression can differ.
	testkit.Diff(t, "decoded bytes of the draft", []byte{0xb9, 0xa3}, decode(t, "eNrbuRgAAhcBXQ"))
}

func TestNewBitsHasAPowerOfTwoOfEntries(t *testing.T) {
	for index, want := range map[int]int{0: 1024, 1023: 1024, 1024: 2048, 2047: 2048, 2048: 4096, 1<<20 - 1: 1 << 20} {
		t.Run(strconv.Itoa(index), func(t *testing.T) {
			list := statuslist.NewBits(index)
			if list.Len() != want {
				t.Errorf("the list has %d entries, want %d", list.Len(), want)
			}
			if list.IsInvalid(index) {
				t.Error("the entry of a new list is INVALID")
			}
			list.SetInvalid(index)
			if !list.IsInvalid(index) {
				t.Error("the entry is VALID")
			}
			testkit.Diff(t, "decoded bytes", []byte(list), decode(t, list.Encode()))
		})
	}
}

func TestContaining(t *testing.T) {
	list := statuslist.NewBits(0)
	list.SetInvalid(7)
	if same := list.Containing(1023); &same[0] != &list[0] {
		t.Error("the list was copied although it contains the index")
	}
	longer := list.Containing(1024)
	if longer.Len() != 2048 || !longer.IsInvalid(7) || longer.IsInvalid(1024) {
		t.Errorf("the longer list has %d entries, of which 7 is INVALID: %t, and 1024: %t", longer.Len(), longer.IsInvalid(7), longer.IsInvalid(1024))
	}
	longer.SetValid(7)
	if longer.IsInvalid(7) || !list.IsInvalid(7) {
		t.Error("the longer list shares its entries with the shorter one")
	}
	if empty := statuslist.Bits(nil).Containing(0); empty.Len() != statuslist.MinEntries {
		t.Errorf("a list from nothing has %d entries, want %d", empty.Len(), statuslist.MinEntries)
	}
}

func TestSetChangesOneEntry(t *testing.T) {
	list := statuslist.NewBits(0)
	list.SetAllInvalid()
	list.SetValid(8)
	for i := range list.Len() {
		if list.IsInvalid(i) == (i == 8) {
			t.Errorf("entry %d is INVALID: %t", i, list.IsInvalid(i))
		}
	}
}

func TestLifetime(t *testing.T) {
	tests := map[string]struct{ maxStaleness, ttl, want time.Duration }{
		"a server that stays ready":     {ttl: 10 * time.Second, want: time.Hour},
		"a server that becomes unready": {maxStaleness: 5 * time.Minute, ttl: 10 * time.Second, want: 6 * time.Minute},
		"a TTL that is longer":          {maxStaleness: 30 * time.Second, ttl: 10 * time.Minute, want: 30 * time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "lifetime", tt.want, statuslist.Lifetime(tt.maxStaleness, tt.ttl))
		})
	}
}
