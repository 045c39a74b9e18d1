package signingkey

import (
	"cmp"
	"slices"
	"time"
)

// Merge adds the keys of a backup to the keys of a realm, so that tokens that they signed verify. The
// result is sorted like that of Plan. It is empty only if both are. Merge is idempotent.
//
// If the realm has keys, its Active key continues to sign. The restored Active and Pending keys become
// Retiring, because both may have signed tokens after the backup. They are removed like other Retiring
// keys. If the realm has no keys, the restored Active key continues to sign, and Pending keys also
// become Retiring.
//
// A key of the realm replaces the restored key with the same ID. lifetime is the realm's token lifetime:
// after the backup, the restored keys may have signed tokens with it. If there are more than MaxKeys,
// Merge omits the restored keys that retired first, and returns their IDs.
func Merge(current, restored []Key, lifetime time.Duration) (merged []Key, omitted []string) {
	merged, restored = slices.Clone(current), slices.Clone(restored)
	longest := LongestLifetime(restored, lifetime)
	slices.SortStableFunc(restored, neededFirst)
	for _, k := range restored {
		if find(merged, func(m *Key) bool { return m.ID == k.ID }) != nil {
			continue
		}
		if len(merged) >= MaxKeys {
			omitted = append(omitted, k.ID)
			continue
		}
		if k.State != Retiring {
			k.LongestLifetime = longest
			if len(current) > 0 || k.State == Pending {
				k.retire()
				k.RetiredAt = time.Time{}
			}
		}
		merged = append(merged, k)
	}
	slices.SortFunc(merged, func(a, b Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return merged, omitted
}

// LongestLifetime returns the longest lifetime of a token that any of the keys signed, but at least the
// given one.
func LongestLifetime(keys []Key, least time.Duration) time.Duration {
	for i := range keys {
		least = max(least, keys[i].LongestLifetime)
	}
	return least
}

// Unneeded reports whether a restored key need not be merged into the current keys of a realm: they
// contain it, or Plan would remove it immediately.
func Unneeded(restored *Key, current []Key, policy Policy, now time.Time) bool {
	return due(policy.RemoveAt(restored), now) || find(current, func(m *Key) bool { return m.ID == restored.ID }) != nil
}

// neededFirst orders keys by how long they are needed: Active, Pending, and Retiring keys that may
// still sign, and then the others, those that retired last first.
func neededFirst(a, b Key) int {
	rank := map[State]int{Active: 0, Pending: 1, Retiring: 2}
	if a.State == Retiring && b.State == Retiring && a.RetiredAt.IsZero() != b.RetiredAt.IsZero() {
		if a.RetiredAt.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), b.RetiredAt.Compare(a.RetiredAt), cmp.Compare(a.ID, b.ID))
}
