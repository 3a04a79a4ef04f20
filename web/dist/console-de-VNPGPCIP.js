import{a as p,c as m,la as o}from"./chunk-56C3DFFE.js";m(p(o,null),document.getElementById("app"));
