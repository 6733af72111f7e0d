package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// consumerGroup and unwrittenOutcomes are the defaults of the settings
	// CONSUMER_GROUP and DISPATCH_UNWRITTEN_OUTCOMES.
	consumerGroup     = "streaming-hub"
	unwrittenOutcomes = 512
	// killBoot is how long after its start a process is killed at the latest
	// when it is to be caught while it starts.
	killBoot = time.Second
	// killPatience bounds the wait for the progress that a kill is to come at.
	// It is longer than a consumer group needs to notice that a member is dead.
	killPatience = 15 * time.Second
	// Of so many kills one leaves it to the consumer group to notice the death.
	// After the others the bench takes the dead member out of the group, as an
	// operator can, because else nearly all of the time would go by in waiting.
	killNatural = 10
	// killDrain bounds the time from the last start to the last delivery: the
	// lease of a minute, and the lone runs of what was leased at the kills.
	killDrain = 10 * time.Minute
	// killStill is how long nothing may move meanwhile: longer than a lease.
	killStill = 90 * time.Second
)

// killing is the state of the part kills.
type killing struct {
	*rig
	o      options
	random *rand.Rand
	// leased are the deliveries that were leased at some kill, with the number
	// of kills: only these may have been sent more than once.
	leased map[string]int
	// recovered are the times from a kill to the next request, in seconds, and
	// noticed those until partitions were assigned again, where the consumer
	// group had to find out by itself that its member was dead.
	recovered, noticed []float64
}

// measureKills ends the data plane by SIGKILL again and again while events are
// ingested and delivered, and starts it again at once. Every event has to
// arrive verified; a second request is allowed only for deliveries that were
// leased at a kill, and no more in all than attempts were under way and
// outcomes unwritten.
func measureKills(ctx context.Context, o options, r *result) error {
	rig, err := newRig(ctx, o, "--identities")
	if err != nil {
		return err
	}
	defer rig.close()
	seed := o.seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	fmt.Printf("the kills' seed is %d\n", seed)
	k := &killing{rig: rig, o: o, random: rand.New(rand.NewPCG(seed, 1)), leased: map[string]int{}}
	shares, produced := make(chan int, o.kills+1), make(chan error, 1)
	go func() { produced <- k.produceShares(ctx, shares) }()
	err = k.killAll(ctx, shares)
	close(shares)
	if err = errors.Join(err, <-produced); err != nil {
		return err
	}
	begun := time.Now()
	if err := k.drain(ctx); err != nil {
		return err
	}
	drained := time.Since(begun)
	repeats, err := k.checkRequests(ctx)
	if err != nil {
		return err
	}
	allowed := (o.workers + unwrittenOutcomes) * o.kills
	if repeats > allowed {
		return fmt.Errorf("%d requests were sent a second time, allowed are %d", repeats, allowed)
	}
	slices.Sort(k.recovered)
	slices.Sort(k.noticed)
	r.rows = append(r.rows,
		row{"lost in the kills", "0", "0", fmt.Sprintf("kill -9 × %d in %d events, %d workers, seed %d; all verified", o.kills, o.killEvents, o.workers, seed)},
		row{"duplicates in the kills", fmt.Sprint(repeats), fmt.Sprintf("≤ %d", allowed), fmt.Sprintf("(%d workers + %d unwritten outcomes) × %d; %d deliveries were leased at a kill",
			o.workers, unwrittenOutcomes, o.kills, len(k.leased))},
		row{"kill → next delivery, median s", fmt.Sprintf("%.2f", quantile(k.recovered, .5)), "",
			fmt.Sprintf("worst %.2f s; partitions again after %.1f s at worst where the consumer group notices by itself; %.0f s from the last start to the last delivery, with a lease of 60 s",
				quantile(k.recovered, 1), quantile(k.noticed, 1), drained.Seconds())})
	return nil
}

// produceShares publishes so many events at a time, now as fast as they go and
// now in a trickle.
func (k *killing) produceShares(ctx context.Context, shares <-chan int) error {
	random := rand.New(rand.NewPCG(k.random.Uint64(), 2))
	for n := range shares {
		if err := k.produce(ctx, n, random.IntN(2)*2*k.o.rate); err != nil {
			return err
		}
	}
	return nil
}

// killAll starts and kills the data plane as often as asked for; it leaves one
// running.
func (k *killing) killAll(ctx context.Context, shares chan<- int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(k.broker.addr))
	if err != nil {
		return err
	}
	defer client.Close()
	share := k.o.killEvents / k.o.kills
	if err := k.spawnPlane(ctx, "all", k.o.workers); err != nil {
		return err
	}
	shares <- k.o.killEvents - share*(k.o.kills-1)
	natural, killed := false, moment{at: time.Now()}
	for kill := range k.o.kills {
		if err := k.await(ctx, share, natural, killed); err != nil {
			return err
		}
		k.plane.stop(syscall.SIGKILL)
		killed = moment{at: time.Now()}
		if killed.requests, err = k.requests(); err != nil {
			return err
		}
		if err := k.noteLeased(ctx); err != nil {
			return err
		}
		natural = kill%killNatural == killNatural-1
		if !natural {
			if err := expelMembers(ctx, client); err != nil {
				return err
			}
		}
		if err := k.spawnPlane(ctx, "all", k.o.workers); err != nil {
			return err
		}
		if kill < k.o.kills-1 {
			shares <- share
		}
	}
	return nil
}

// moment is a kill, and how many requests had arrived by then.
type moment struct {
	at       time.Time
	requests int
}

func (k *killing) requests() (int, error) {
	var c counts
	err := k.get("/counts", &c)
	return c.Requests, err
}

// await waits for the moment of the next kill: one time in four some moment
// while the process starts, else when it has taken up its work after the last
// kill and a random part of a share of events has arrived.
func (k *killing) await(ctx context.Context, share int, natural bool, killed moment) error {
	if k.random.IntN(4) == 0 {
		select {
		case <-time.After(time.Duration(k.random.Int64N(int64(killBoot)))):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	want := killed.requests + 1 + k.random.IntN(share)
	ok, err := k.pollUntil(ctx, killPatience, func() (bool, error) {
		if natural && !ready(k.planeURL) {
			return false, nil
		}
		n, err := k.requests()
		return n > killed.requests, err
	})
	if err != nil || !ok {
		return err // nothing to do, or only what is still leased: killed all the same
	}
	if took := time.Since(killed.at).Seconds(); natural {
		k.noticed = append(k.noticed, took)
	} else {
		k.recovered = append(k.recovered, took)
	}
	_, err = k.pollUntil(ctx, killPatience, func() (bool, error) {
		n, err := k.requests()
		return n >= want, err
	})
	return err
}

// expelMembers takes all members out of the consumer group.
func expelMembers(ctx context.Context, client *kgo.Client) error {
	groups, err := kadm.NewClient(client).DescribeGroups(ctx, consumerGroup)
	if err != nil {
		return fmt.Errorf("look at the consumer group: %w", err)
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = consumerGroup
	for _, m := range groups[consumerGroup].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
	}
	if len(req.Members) == 0 {
		return nil
	}
	if _, err := req.RequestWith(ctx, client); err != nil {
		return fmt.Errorf("take the dead out of the consumer group: %w", err)
	}
	return nil
}

// noteLeased notes which deliveries somebody holds right after a kill. What is
// leased later was not sent before it.
func (k *killing) noteLeased(ctx context.Context) error {
	ids, err := k.texts(ctx, "SELECT id::text FROM delivery_queue WHERE lease_token IS NOT NULL")
	for _, id := range ids {
		k.leased[id]++
	}
	return err
}

// texts reads a column of texts.
func (r *rig) texts(ctx context.Context, query string, args ...any) (list []string, err error) {
	rows, err := r.look.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// drain waits until everything that was produced is stored and nothing is left
// in the queue.
func (k *killing) drain(ctx context.Context) error {
	var stored, waiting, moved int
	still := time.Now()
	return k.poll(ctx, killDrain, "everything to be delivered", func() (bool, error) {
		var err error
		if stored, err = k.stored(ctx); err != nil {
			return false, err
		}
		if err := k.look.QueryRow(ctx, "SELECT count(*) FROM delivery_queue").Scan(&waiting); err != nil {
			return false, err
		}
		if now := stored - waiting; now != moved {
			moved, still = now, time.Now()
		}
		if time.Since(still) > killStill {
			return false, fmt.Errorf("nothing has moved for %s: %d of %d records are stored, %d deliveries wait", killStill, stored, k.o.killEvents, waiting)
		}
		return stored >= k.o.killEvents && waiting == 0, nil
	})
}

// checkRequests holds what the receiver saw against what Postgres says, and
// counts the requests beyond the first of a delivery.
func (k *killing) checkRequests(ctx context.Context) (repeats int, err error) {
	var c counts
	var events struct{ Verified int }
	if err := errors.Join(k.get("/counts", &c), k.get("/events", &events)); err != nil {
		return 0, err
	}
	if events.Verified != k.o.killEvents || c.Unverified != 0 {
		return 0, fmt.Errorf("of %d events %d arrived verified, %d requests did not verify", k.o.killEvents, events.Verified, c.Unverified)
	}
	for what, query := range map[string]string{
		"events stored":       "SELECT count(*)::text FROM events",
		"deliveries made":     "SELECT count(*)::text FROM deliveries",
		"deliveries recorded": "SELECT count(DISTINCT delivery_id)::text FROM attempts WHERE state = 'DELIVERED'",
	} {
		n, err := k.texts(ctx, query)
		if err != nil {
			return 0, err
		}
		if n[0] != fmt.Sprint(k.o.killEvents) {
			return 0, fmt.Errorf("%d events were produced, %s are %s", k.o.killEvents, n[0], what)
		}
	}
	ids, err := k.texts(ctx, "SELECT id::text FROM deliveries")
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(ids, 10_000) {
		times, err := k.times(ctx, chunk)
		if err != nil {
			return 0, err
		}
		for i, n := range times {
			repeats += max(0, n-1)
			if n < 1 || n > 1+k.leased[chunk[i]] {
				return 0, fmt.Errorf("delivery %s was sent %d times and was leased at %d kills", chunk[i], n, k.leased[chunk[i]])
			}
		}
	}
	return repeats, nil
}

// times asks the receiver how often deliveries came.
func (k *killing) times(ctx context.Context, ids []string) (times []int, err error) {
	body, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+k.receiver.addr+"/times", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&times); err != nil {
		return nil, fmt.Errorf("ask how often deliveries came: %w", err)
	}
	if len(times) != len(ids) {
		return nil, fmt.Errorf("of %d deliveries the receiver told of %d how often they came", len(ids), len(times))
	}
	return times, nil
}
