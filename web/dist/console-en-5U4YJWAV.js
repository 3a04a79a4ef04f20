import{La as o,a as p,c as m}from"./chunk-4JR3OW3D.js";m(p(o,null),document.getElementById("app"));
