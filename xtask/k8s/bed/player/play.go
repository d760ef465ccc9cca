package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	modeFast = "fast"
	modeReal = "real"
	// So many pods are dealt with at once.
	workers = 16
)

// A runner does what happens on the node, from when the kubelet has taken a pod in.
type runner interface {
	// step brings a pod forward that is neither over nor to be deleted.
	step(ctx context.Context, pod *v1.Pod) error
	// ended says whether nothing of the pod runs any more, after seeing to it that it ends.
	ended(pod *v1.Pod) bool
	// forget drops what is kept of a pod that is over.
	forget(uid types.UID)
}

// Kubelets of all nodes in one.
type kubelets struct {
	client *kubernetes.Clientset
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	queue  workqueue.TypedRateLimitingInterface[string]
	runner runner
	books  books
	// Which UID a name in the queue had when it was last seen.
	known sync.Map
}

// play runs the kubelets until the context ends.
func play(ctx context.Context, client *kubernetes.Clientset, o options) error {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	podFactory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(l *metav1.ListOptions) { l.FieldSelector = bound }))
	factory := informers.NewSharedInformerFactory(client, 0)
	k := &kubelets{
		client: client,
		pods:   podFactory.Core().V1().Pods().Lister(),
		nodes:  factory.Core().V1().Nodes().Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](
				50*time.Millisecond, 5*time.Second)),
		books: books{used: map[string]amounts{}, of: map[types.UID]entry{}},
	}
	switch o.mode {
	case modeFast:
		k.runner = &fast{kubelets: k, started: map[types.UID]time.Time{}}
	case modeReal:
		real, err := newReal(k, factory.Core().V1().Services().Lister(), o.dir)
		if err != nil {
			return err
		}
		if err := real.serve(ctx, o.dir, o.port); err != nil {
			return err
		}
		// A service may come after the pods that it names.
		_, err = factory.Core().V1().Services().Informer().AddEventHandler(
			cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
				if service, ok := object.(*v1.Service); ok {
					real.tellNames(service.Namespace)
				}
			}})
		if err != nil {
			return err
		}
		k.runner = real
	default:
		return fmt.Errorf("no mode %q", o.mode)
	}
	add := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			k.queue.Add(key)
		}
	}
	_, err := podFactory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) },
		DeleteFunc: add,
	})
	if err != nil {
		return err
	}
	nodes := factory.Core().V1().Nodes().Informer()
	services := factory.Core().V1().Services().Informer()
	factory.Start(ctx.Done())
	podFactory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced, services.HasSynced,
		podFactory.Core().V1().Pods().Informer().HasSynced) {
		return ctx.Err()
	}
	fmt.Println("playing the kubelets:", o.mode)
	for range workers {
		go k.work(ctx)
	}
	<-ctx.Done()
	k.queue.ShutDown()
	return nil
}

func (k *kubelets) work(ctx context.Context) {
	for {
		key, stop := k.queue.Get()
		if stop {
			return
		}
		if err := k.sync(ctx, key); err != nil {
			fmt.Printf("%s: %v\n", key, err)
			k.queue.AddRateLimited(key)
		} else {
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

func (k *kubelets) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pod, err := k.pods.Pods(namespace).Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	gone := apierrors.IsNotFound(err)
	if before, ok := k.known.Load(key); ok && (gone || before != pod.UID) {
		k.drop(before.(types.UID))
		k.known.Delete(key)
	}
	if gone {
		return nil
	}
	k.known.Store(key, pod.UID)
	switch {
	case pod.DeletionTimestamp != nil:
		return k.remove(ctx, pod)
	case over(pod):
		k.books.release(pod.UID)
		return nil
	}
	if reason, message := k.admit(pod); reason != "" {
		return k.patch(ctx, pod, v1.PodStatus{Phase: v1.PodFailed, Reason: reason, Message: message})
	}
	return k.runner.step(ctx, pod)
}

func (k *kubelets) drop(uid types.UID) {
	k.runner.forget(uid)
	k.books.release(uid)
}

// remove ends a pod that was deleted, says how it ended, and takes the object away.
func (k *kubelets) remove(ctx context.Context, pod *v1.Pod) error {
	if !k.runner.ended(pod) {
		return nil
	}
	// A job counts a deleted pod when it is told how that ended.
	if !over(pod) && ofJob(pod) {
		if err := k.patch(ctx, pod, v1.PodStatus{Phase: v1.PodFailed}); err != nil {
			return err
		}
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// patch writes a pod's status as the kubelet does: beside the conditions of others.
func (k *kubelets) patch(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   status,
	})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name,
		types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func over(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

func ofJob(pod *v1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Job"
}
