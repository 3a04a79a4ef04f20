import{a as p,c as m,ia as o}from"./chunk-5IAP7KHZ.js";m(p(o,null),document.getElementById("app"));
