import '../shared/tokens.css';
import '../shared/base.css';
import './admin.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { ops } from './state.svelte';

mount(App, { target: document.getElementById('app')! });
ops.start();
