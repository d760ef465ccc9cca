package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"time"
)

// An informer that watches nothing: what it knows is set, and who listens is told before that
// returns. The plugins cannot tell it from one that follows an API server.
type still struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
	objects  []runtime.Object
}

// newStill gives the factory a still informer for the type of that object.
func newStill(factory informers.SharedInformerFactory, object runtime.Object) *still {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	informer := &still{
		SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, object, 0, indexers),
	}
	// The first informer of a type is the one that everybody gets.
	factory.InformerFor(object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		return informer
	})
	return informer
}

// set replaces what the informer knows.
func (s *still) set(objects []runtime.Object) error {
	for _, object := range s.objects {
		if err := s.GetIndexer().Delete(object); err != nil {
			return err
		}
		for _, handler := range s.handlers {
			handler.OnDelete(object)
		}
	}
	s.objects = objects
	for _, object := range objects {
		if err := s.GetIndexer().Add(object); err != nil {
			return err
		}
		for _, handler := range s.handlers {
			handler.OnAdd(object, false)
		}
	}
	return nil
}

func (s *still) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, handler)
	return synced{}, nil
}

func (s *still) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s *still) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s *still) HasSynced() bool                     { return true }
func (s *still) HasSyncedChecker() cache.DoneChecker { return synced{} }

// synced is what has nothing to wait for.
type synced struct{}

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "still" }

func (synced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
